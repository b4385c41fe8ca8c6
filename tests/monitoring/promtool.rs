//! Prometheus' own judgement, from Debian's package `prometheus`.

use std::{
    path::Path,
    process::{Command, Output},
};

use crate::root;

/// Runs promtool where the rules are; none when there is none here, which is an error where all must run.
pub(crate) fn promtool(arguments: &[&str]) -> Option<Output> {
    match Command::new("promtool").args(arguments).current_dir(root().join("policies/monitoring")).output() {
        Ok(output) => Some(output),
        Err(error) => {
            assert!(std::env::var_os("FETTLE_TEST_ALL").is_none(), "promtool cannot be started: {error}");
            println!("skipped: promtool cannot be started: {error}; install Debian's package `prometheus`");
            None
        }
    }
}

/// Fails with what promtool says, unless it is content.
pub(crate) fn content(output: &Output) {
    let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success(), "{}", said.join("\n"));
}

/// A file of rules with these expressions.
pub(crate) fn check_expressions(expressions: &[(String, String)]) {
    let rules: Vec<_> = expressions
        .iter()
        .enumerate()
        .map(|(number, (_, expression))| serde_json::json!({"record": format!("checked:{number}"), "expr": expression}))
        .collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    let groups = serde_json::json!({"groups": [{"name": "checked", "rules": rules}]});
    std::fs::write(file.path(), groups.to_string()).unwrap();
    let path: &Path = file.path();
    if let Some(output) = promtool(&["check", "rules", path.to_str().unwrap()]) {
        content(&output);
    }
}

#[test]
fn prometheus_takes_the_rules() {
    if let Some(output) = promtool(&["check", "rules", "alerts.yaml"]) {
        content(&output);
    }
}

#[test]
fn every_alert_fires_when_it_should_and_not_when_it_should_not() {
    if let Some(output) = promtool(&["test", "rules", "alerts_test.yaml"]) {
        content(&output);
    }
}

#[test]
fn a_malformed_expression_is_found() {
    let wrong = vec![("wrong".to_owned(), "sum by (".to_owned())];
    let caught = std::panic::catch_unwind(|| check_expressions(&wrong));
    assert!(caught.is_err() || promtool(&["--version"]).is_none());
}
