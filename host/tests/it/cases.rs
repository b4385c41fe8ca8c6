//! The tables of cases of all steps in `steps/`, in the real sandbox.

use std::{collections::BTreeMap, path::Path};

use crate::common::{self, TestNode};
use fettle_host::replay::cases::{self, Results, Table};

fn steps() -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../steps");
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let names = entries.filter(|entry| entry.path().join("Cargo.toml").is_file()).map(|entry| entry.file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).filter(|name| name != "sdk").collect();
    names.sort();
    names
}

async fn check(node: &TestNode, step: &str, table: &Table) -> Results {
    let compiled = node.sandbox.compile(common::component(step).into()).await.unwrap();
    let descriptor = node.sandbox.describe(&compiled).await.unwrap();
    cases::check(&node.sandbox, &compiled, &descriptor, table, &BTreeMap::new()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_step_has_a_table_of_cases_and_passes_it() {
    let node = TestNode::new();
    let mut problems = Vec::new();
    for step in steps() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../steps").join(&step).join("cases.yaml");
        let Ok(text) = std::fs::read_to_string(&path) else {
            problems.push(format!("{step} has no cases.yaml"));
            continue;
        };
        let table: Table = fettle_model::document::read(&text).unwrap_or_else(|error| panic!("{step}: {error}"));
        let results = check(&node, &step, &table).await;
        let (covered, all) = results.coverage.counts();
        println!("{step}: {} cases, {covered} of {all} ways", results.cases.len());
        problems.extend(
            results.cases.iter().filter_map(|case| Some(format!("{step}: {}: {}", case.name, case.problem.as_ref()?))),
        );
        // Each function that a step offers ends well and badly in some case.
        for function in results.coverage.functions_missed.keys() {
            if !results.coverage.functions.contains_key(function) {
                problems.push(format!("{step}: no case calls {function}"));
            }
        }
        for call in results.coverage.answers_missed.keys() {
            if !results.coverage.answers.contains_key(call) && step != "testing" {
                problems.push(format!("{step}: no case answers {call}"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_case_that_is_not_so_is_told_with_what_came_instead() {
    let node = TestNode::new();
    let run = async |case: &str| {
        let table: Table = fettle_model::document::read(&format!("cases: [{case}]")).unwrap();
        check(&node, "testing", &table).await.cases[0].problem.clone().unwrap_or_default()
    };
    let problem = run("{name: a, input: {mode: ok, value: 7}, expect: {output: {answer: 8}}}").await;
    assert!(problem.contains("{\"answer\":7}") && problem.contains("{\"answer\":8}"), "{problem}");
    let problem = run("{name: a, input: {mode: ok}}").await;
    assert!(problem.contains("the case expects nothing"), "{problem}");
    let problem = run("{name: a, input: {mode: read_file, path: data/x}, expect: {output: {}}}").await;
    assert!(problem.contains("files.read") && problem.contains("no answer left"), "{problem}");
    let problem = run(
        "{name: a, input: {mode: read_file, path: data/x}, answers: {files.read: [{err: gone}]}, expect: {output: {}}}",
    )
    .await;
    assert!(problem.contains("there is no case `gone`; there is `access-denied`"), "{problem}");
    let problem = run("{name: a, input: {mode: ok, value: 7}, answers: {files.read: [{ok: {text: x}}]}, expect: {output: {answer: 7}}}").await;
    assert!(problem.contains("1 answers of files.read were never asked for"), "{problem}");
    let problem = run("{name: a, input: {mode: read_file, path: data/x}, answers: {files.read: [{ok: {text: x}}]}, expect: {output: {answer: x}}, calls: []}").await;
    assert!(problem.contains("it calls files.read"), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn coverage_counts_ends_and_answers_and_names_what_is_missing() {
    let node = TestNode::new();
    let table: Table = fettle_model::document::read(
        "cases: [{name: a, function: probe, input: {template: x, path: data/x}, answers: {files.stat: [{ok: null}]}, expect: {unsatisfied: x}}]",
    )
    .unwrap();
    let coverage = check(&node, "file-render", &table).await.coverage;
    let list = |points: &fettle_host::replay::coverage::Points, name: &str| {
        points.get(name).map(|points| points.iter().cloned().collect::<Vec<_>>().join(", ")).unwrap_or_default()
    };
    assert_eq!(list(&coverage.functions, "probe"), "unsatisfied");
    assert_eq!(list(&coverage.functions_missed, "probe"), "failed, satisfied, unknown");
    assert_eq!(list(&coverage.functions_missed, "run"), "answered, failed");
    assert_eq!(list(&coverage.answers, "files.stat"), "ok none");
    let missed = list(&coverage.answers_missed, "files.stat");
    assert!(missed.contains("ok some") && missed.contains("err access-denied"), "{missed}");
    assert!(list(&coverage.answers_missed, "files.write").contains("ok true"), "{coverage:?}");
    assert!(!coverage.answers_missed.contains_key("files.remove"), "what it does not import cannot be missed");
}
