//! Nothing exists without a test.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    report::{holds, holds_except},
    source::{Source, everything, files, is_test, read, root, steps, text},
};

/// The directories of step kinds: built as components.
fn step_kinds() -> Vec<String> {
    let mut kinds = steps();
    kinds.retain(|step| text(&format!("steps/{step}/Cargo.toml")).contains("cdylib"));
    assert!(kinds.len() > 5, "only {kinds:?} are step kinds; correct the test");
    kinds
}

/// Whether a file has a test function.
fn has_tests(source: &Source) -> bool {
    fn any(items: &[syn::Item]) -> bool {
        items.iter().any(|item| match item {
            syn::Item::Fn(function) => is_test(&function.attrs),
            syn::Item::Mod(module) => module.content.as_ref().is_some_and(|(_, items)| any(items)),
            _ => false,
        })
    }
    any(&source.syntax.items)
}

#[test]
fn every_step_kind_has_native_tests() {
    let findings: Vec<String> = step_kinds()
        .into_iter()
        .filter(|step| !everything(&[&format!("steps/{step}/src")]).iter().any(has_tests))
        .map(|step| format!("steps/{step}/src: has no test"))
        .collect();
    holds(
        "every step kind has tests that run natively",
        "add src/tests.rs; fettle_step::fake::Trial calls the step as the host does",
        &findings,
    );
}

#[test]
fn every_step_kind_runs_in_the_real_host_in_a_test() {
    let tests = everything(&["host/tests"]);
    let named: BTreeSet<String> =
        tests.iter().flat_map(|source| source.all_names().texts).map(|written| written.what).collect();
    let missing: Vec<String> = step_kinds()
        .into_iter()
        .filter(|step| !named.contains(step.as_str()))
        .map(|step| format!("steps/{step}: no test below host/tests names the component \"{step}\""))
        .collect();
    holds(
        "every step kind is tested as a built component in the real host",
        "run it in a test below host/tests, where common::TestNode loads components by their directory's name",
        &missing,
    );
}

/// The URLs that files below plane/src/api describe, with the file.
fn endpoints() -> Vec<(String, String)> {
    let mut endpoints = Vec::new();
    for source in everything(&["plane/src/api"]) {
        for part in source.text.split("#[utoipa::path(").skip(1) {
            let path = part.split("path = \"").nth(1).and_then(|rest| rest.split('"').next());
            let path = path.unwrap_or_else(|| panic!("{}: `path` is missing in utoipa::path", source.path));
            endpoints.push((source.path.clone(), path.to_owned()));
        }
    }
    assert!(endpoints.len() > 10, "only {} endpoints were found; correct the test", endpoints.len());
    endpoints
}

/// The texts of a file, with its constants of text put in where `{NAME}` stands.
fn urls(source: &Source) -> Vec<String> {
    let mut constants = BTreeMap::new();
    for item in &source.syntax.items {
        if let syn::Item::Const(item) = item
            && let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &*item.expr
        {
            constants.insert(item.ident.to_string(), text.value());
        }
    }
    let put_in =
        |text: String| constants.iter().fold(text, |text, (name, value)| text.replace(&format!("{{{name}}}"), value));
    source.all_names().texts.into_iter().map(|written| put_in(written.what)).collect()
}

/// Whether a text of a test is a URL of this endpoint. A text that starts with `{..}` may stand for
/// any beginning, as long as a fixed word of the endpoint comes after it.
fn is_url_of(text: &str, endpoint: &str) -> bool {
    let is_parameter = |segment: &str| segment.starts_with('{');
    let text = text.split('?').next().unwrap_or_default();
    let text = text.find("/api/").map_or(text, |start| &text[start..]);
    let mut written = text.split('/').rev().peekable();
    let mut fixed = 0;
    for expected in endpoint.split('/').rev() {
        let Some(segment) = written.next() else { return false };
        let begins = written.peek().is_none();
        if begins && is_parameter(segment) {
            return fixed > 0;
        }
        if is_parameter(expected) {
            continue;
        }
        if segment != expected {
            return false;
        }
        fixed += usize::from(!expected.is_empty());
    }
    written.next().is_none()
}

#[test]
fn every_endpoint_is_called_in_a_test() {
    let tests = everything(&["plane/tests", "tests/src", "tests/scenarios"]);
    // This one asks every endpoint whether it is served and closed; that is no test of what it does.
    let tests = tests.iter().filter(|source| source.path != "plane/tests/it/description.rs");
    let mut written: Vec<String> = tests.flat_map(urls).collect();
    written.extend(urls(&read("plane/tests/it/description.rs")).into_iter().filter(|url| url.contains("openapi.json")));
    let findings: Vec<String> = endpoints()
        .into_iter()
        .filter(|(_, endpoint)| !written.iter().any(|text| is_url_of(text, endpoint)))
        .map(|(file, endpoint)| format!("{file}: no test calls {endpoint}"))
        .collect();
    holds("every endpoint is called in a test", "call it in plane/tests/it, and check what it answers", &findings);
}

#[test]
fn urls_are_told_apart() {
    let show = "/api/v1/projects/{project}/operations/{operation_id}";
    assert!(is_url_of("/api/v1/projects/demo/operations/{}", show));
    assert!(is_url_of("http://{}/api/v1/projects/demo/operations/x?a=b", show));
    assert!(!is_url_of("/api/v1/projects/demo/operations", show));
    assert!(is_url_of("{path}/cancel", &format!("{show}/cancel")));
    assert!(!is_url_of("{path}/cancel", &format!("{show}/logs")));
    assert!(!is_url_of("{}", show) && !is_url_of("{path}/{id}", show) && !is_url_of("", show));
}

#[test]
fn every_endpoint_file_stands_where_its_url_says() {
    let mut findings = Vec::new();
    for (file, endpoint) in endpoints() {
        let words = |text: &str| text.replace('_', "-").split('/').map(str::to_owned).collect::<Vec<_>>();
        let folder = file.trim_start_matches("plane/src/api").rsplit_once('/').map_or("", |(folder, _)| folder);
        let fixed: Vec<String> = words(&endpoint).into_iter().filter(|word| !word.starts_with('{')).collect();
        if !fixed.starts_with(&words(&format!("/api{folder}"))) && !folder.is_empty() {
            findings.push(format!("{file}: serves {endpoint}"));
        }
    }
    holds("one endpoint per file, and its folders are its URL", "move the file", &findings);
}

/// Files of scenarios, and whether `main.rs` declares them.
#[test]
fn every_scenario_runs() {
    let main = read("tests/scenarios/main.rs");
    let declared: BTreeSet<String> = main
        .syntax
        .items
        .iter()
        .filter_map(|item| match item {
            syn::Item::Mod(module) => Some(module.ident.to_string()),
            _ => None,
        })
        .collect();
    let mut findings = Vec::new();
    for path in files("tests/scenarios", "rs") {
        let below = path.trim_start_matches("tests/scenarios/").trim_end_matches(".rs");
        let name = below.split('/').next().unwrap_or_default();
        if name != "main" && !declared.contains(name) {
            findings.push(format!("{path}: is not declared in tests/scenarios/main.rs, so it never runs"));
        }
    }
    for name in &declared {
        let path = format!("tests/scenarios/{name}.rs");
        let is_helper = !root().join(&path).is_file();
        if !is_helper && !has_tests(&read(&path)) {
            findings.push(format!("{path}: has no test"));
        }
    }
    holds("every scenario runs", "declare it with `mod`, and give it a test", &findings);
}

/// Test files of a crate that nobody declares never run.
#[test]
fn every_test_file_runs() {
    let mut found = Vec::new();
    for directory in ["plane/tests/it", "plane/tests/crash"] {
        let main = text(&format!("{directory}/main.rs"));
        for path in files(directory, "rs") {
            let below = path.trim_start_matches(directory).trim_start_matches('/').trim_end_matches(".rs");
            let name = below.split('/').next().unwrap_or_default();
            if name != "main" && !main.contains(&format!("mod {name};")) {
                found.push((path.clone(), format!("{path}: is not declared in {directory}/main.rs, so it never runs")));
            }
        }
    }
    holds_except("every test file runs", "declare it with `mod`", &found, &[]);
}
