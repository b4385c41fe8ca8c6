//! `policies/monitoring/dashboard.json`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{alerts::recorded, names::unknown, promtool, text};

const DASHBOARD: &str = "policies/monitoring/dashboard.json";

/// The panels that section 13 of seed 001 asks for.
const REQUIRED: [&str; 4] = [
    "Operation failures",
    "Bootstrap and verification failures",
    "Host upgrade failures and roll-backs",
    "Credential mint denials",
];

fn panels() -> Vec<Value> {
    let dashboard: Value = serde_json::from_str(&text(DASHBOARD)).unwrap();
    dashboard["panels"].as_array().unwrap().clone()
}

/// Every query with the title of its panel.
fn queries() -> Vec<(String, String)> {
    let mut queries = Vec::new();
    for panel in panels() {
        let title = panel["title"].as_str().unwrap().to_owned();
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{title} asks for nothing");
        queries.extend(targets.iter().map(|target| (title.clone(), target["expr"].as_str().unwrap().to_owned())));
    }
    queries
}

#[test]
fn every_panel_that_is_required_is_there() {
    let titles: BTreeSet<String> = panels().iter().map(|panel| panel["title"].as_str().unwrap().to_owned()).collect();
    assert!(REQUIRED.iter().all(|title| titles.contains(*title)), "{titles:?}");
    assert_eq!(titles.len(), panels().len(), "two panels have one title");
}

#[test]
fn every_metric_and_label_in_the_dashboard_exists() {
    let recorded = recorded();
    let mut findings = Vec::new();
    for (title, query) in queries() {
        findings.extend(
            unknown(&query, &recorded).into_iter().map(|what| format!("{DASHBOARD}: {title}: there is no {what}")),
        );
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn prometheus_takes_every_query_of_the_dashboard() {
    promtool::check_expressions(&queries());
}

#[test]
fn panels_do_not_lie_on_each_other() {
    let mut taken = BTreeSet::new();
    for panel in panels() {
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(x < 24 && taken.insert((x, y)), "{} lies on another panel", panel["title"]);
            }
        }
    }
}
