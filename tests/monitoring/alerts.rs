//! `policies/monitoring/alerts.yaml` and its tests.

use std::collections::{BTreeMap, BTreeSet};

use fettle_model::document;
use serde_json::Value;

use crate::{
    names::{named, unknown},
    text,
};

const RULES: &str = "policies/monitoring/alerts.yaml";
const TESTS: &str = "policies/monitoring/alerts_test.yaml";
const PAGE: &str = "docs/how-to/monitor-a-fleet.md";

/// The alerts that section 13 of seed 001 asks for.
const REQUIRED: [&str; 4] = [
    "FettleOperationFailureSpike",
    "FettleBootstrapVerifyFailures",
    "FettleAgentUpgradeFailures",
    "FettleCredentialMintDenials",
];

fn yaml(path: &str) -> Value {
    document::read(&text(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn rules() -> Vec<Value> {
    let groups = yaml(RULES)["groups"].as_array().unwrap().clone();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

fn alerts() -> BTreeMap<String, Value> {
    let named = |rule: Value| Some((rule["alert"].as_str()?.to_owned(), rule));
    rules().into_iter().filter_map(named).collect()
}

/// What rules make, with the labels they keep.
pub(crate) fn recorded() -> BTreeMap<String, BTreeSet<String>> {
    let named = |rule: &Value| {
        let labels = named(rule["expr"].as_str()?).1;
        Some((rule["record"].as_str()?.to_owned(), labels))
    };
    rules().iter().filter_map(named).collect()
}

#[test]
fn every_metric_and_label_in_the_rules_exists() {
    let recorded = recorded();
    let mut findings = Vec::new();
    for rule in rules() {
        let name = rule["alert"].as_str().or(rule["record"].as_str()).unwrap();
        let missing = unknown(rule["expr"].as_str().unwrap(), &recorded);
        findings.extend(missing.into_iter().map(|what| format!("{RULES}: {name}: there is no {what}")));
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn every_alert_that_is_required_is_there() {
    let alerts = alerts();
    assert!(REQUIRED.iter().all(|name| alerts.contains_key(*name)), "{:?}", alerts.keys());
}

#[test]
fn every_alert_has_a_test_in_which_it_fires() {
    let mut fires = BTreeSet::new();
    for test in yaml(TESTS)["tests"].as_array().unwrap() {
        for alert in test["alert_rule_test"].as_array().unwrap() {
            if alert["exp_alerts"].as_array().is_some_and(|expected| !expected.is_empty()) {
                fires.insert(alert["alertname"].as_str().unwrap().to_owned());
            }
        }
    }
    let silent: Vec<_> = alerts().into_keys().filter(|name| !fires.contains(name)).collect();
    assert!(silent.is_empty(), "{TESTS}: no test in which {silent:?} fires");
}

#[test]
fn every_alert_says_what_to_do() {
    let page = text(PAGE);
    let headings: BTreeSet<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix('#'))
        .map(|line| line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-"))
        .collect();
    for (name, alert) in alerts() {
        let text = |key: &str| alert["annotations"][key].as_str().unwrap_or_default().to_owned();
        assert!(!text("summary").is_empty() && !text("description").is_empty(), "{name} has no words");
        let severity = alert["labels"]["severity"].as_str().unwrap_or_default();
        assert!(["page", "warn"].contains(&severity), "{name} has severity `{severity}`");
        let runbook = text("runbook_url");
        let anchor = runbook.strip_prefix(&format!("{PAGE}#")).unwrap_or_default();
        assert!(headings.contains(anchor), "{name}: `{runbook}` leads nowhere");
        assert!(page.contains(&name), "{PAGE} does not name {name}");
    }
}
