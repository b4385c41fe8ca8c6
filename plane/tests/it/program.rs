//! The program, as a process.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};

fn program(data: &std::path::Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fettle-plane")).arg("--data").arg(data).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap().trim()
}

#[test]
fn tokens_are_made_listed_and_revoked() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    let created = program(
        data,
        &["token", "create", "--name", "ci", "--role", "project_member", "--project", "demo", "--expires", "30d"],
    );
    assert!(created.status.success());
    let secret = text(&created.stdout);
    assert!(secret.starts_with("fettle_"), "{secret}");
    let list = || -> Value { serde_json::from_slice(&program(data, &["token", "list", "--json"]).stdout).unwrap() };
    let listed = list();
    assert_eq!(listed["items"][0]["role"], "project_member");
    assert_eq!(listed["items"][0]["project_id"], "demo");
    assert!(!listed.to_string().contains(secret));
    let rotated = program(data, &["token", "rotate", "ci", "--overlap", "1h"]);
    assert!(rotated.status.success() && text(&rotated.stdout).starts_with("fettle_"));
    let listed = list();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "one token, as before");
    let item = &listed["items"][0];
    assert_eq!((&item["name"], &item["used_at"]), (&json!("ci"), &Value::Null));
    assert!(program(data, &["token", "revoke", "ci"]).status.success());
    assert!(list()["items"][0]["revoked_at"].is_string());
    let trail = program(data, &["audit", "--json"]);
    let actions: Vec<Value> = text(&trail.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let actions: Vec<_> = actions.iter().map(|row| row["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["project.create", "token.create", "token.rotate", "token.revoke"]);
    audit_is_verified(data);
    let twice = program(data, &["token", "revoke", "nobody"]);
    assert_eq!((twice.status.code(), text(&twice.stderr)), (Some(1), "error: there is no token `nobody`"));
}

/// The trail is whole, and has the head that it was noted with, and not another one.
fn audit_is_verified(data: &std::path::Path) {
    let verified = program(data, &["audit", "--verify", "--json"]);
    let verified: Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!((&verified["linked"], &verified["unlinked"]), (&Value::from(4), &Value::from(0)));
    let head = verified["head"].as_str().unwrap();
    assert!(program(data, &["audit", "--verify", "--head", head]).status.success());
    let other = format!("sha256:{}", "0".repeat(64));
    let cut = program(data, &["audit", "--verify", "--head", &other]);
    assert_eq!(cut.status.code(), Some(1));
    assert!(text(&cut.stderr).contains("the trail was cut off"), "{}", text(&cut.stderr));
}

#[test]
fn a_plane_is_carried_away_in_one_file_and_back() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("carried.db");
    let file = file.to_str().unwrap();
    let created = program(from.path(), &["token", "create", "--name", "ci", "--role", "platform_admin"]);
    assert!(created.status.success());
    let tokens = |data| text(&program(data, &["token", "list", "--json"]).stdout).to_owned();
    assert!(program(from.path(), &["backup", file]).status.success());
    assert!(program(to.path(), &["restore", file]).status.success());
    assert_eq!(tokens(to.path()), tokens(from.path()));
    let again = program(to.path(), &["restore", file]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("pass `--replace`"), "{}", text(&again.stderr));
    assert!(program(to.path(), &["restore", file, "--replace"]).status.success());
    assert!(program(to.path(), &["migrate"]).status.success());
}

#[test]
fn wrong_combinations_are_refused_with_the_fix() {
    let directory = tempfile::tempdir().unwrap();
    for (arguments, expected) in [
        (vec!["token", "create", "--name", "x", "--role", "project_admin"], "needs `project`"),
        (
            vec!["token", "create", "--name", "x", "--role", "platform_admin", "--project", "p"],
            "leave `org` and `project`",
        ),
        (vec!["token", "create", "--name", "x", "--role", "tenant_admin"], "needs `org`"),
        (vec!["join-token", "create", "--org", "o"], "`--org` goes with `--project`"),
        (vec!["serve", "--listen", "0.0.0.0:0"], "--allow-remote"),
    ] {
        let output = program(directory.path(), &arguments);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
    assert!(text(&program(directory.path(), &["join-token", "create"]).stdout).starts_with("fettle_join_"));
}

#[test]
fn it_serves_until_it_is_told_to_stop() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_fettle-plane"))
        .arg("--data")
        .arg(directory.path())
        .args(["serve", "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let (listens, lets_in) = (lines.next().unwrap(), lines.next().unwrap());
    assert!(listens.starts_with("fettle-plane listens on http://127.0.0.1:"), "{listens}");
    assert!(lets_in.starts_with("fettle-plane lets nodes in at https://127.0.0.1:"), "{lets_in}");
    let stopped = Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(stopped.success());
    assert!(child.wait().unwrap().success());
}
