//! How a broken rule is told.

use std::collections::BTreeSet;

/// Fails with every finding at once.
pub(crate) fn holds(rule: &str, fix: &str, findings: &[String]) {
    assert!(findings.is_empty(), "\nrule: {rule}\nfix:  {fix}\n\n  {}\n", findings.join("\n  "));
}

/// Compares what was found with a list of exceptions that may only shrink. Both are names of places;
/// an exception that is no longer needed is a finding too.
pub(crate) fn holds_except(rule: &str, fix: &str, found: &[(String, String)], exceptions: &[&str]) {
    let exceptions: BTreeSet<&str> = exceptions.iter().copied().collect();
    let places: BTreeSet<&str> = found.iter().map(|(place, _)| place.as_str()).collect();
    let mut findings: Vec<String> = found
        .iter()
        .filter(|(place, _)| !exceptions.contains(place.as_str()))
        .map(|(_, finding)| finding.clone())
        .collect();
    findings.extend(
        exceptions
            .difference(&places)
            .map(|place| format!("{place}: is listed as an exception and needs none; remove it from the list")),
    );
    holds(rule, fix, &findings);
}

#[test]
#[should_panic(expected = "a.rs: is listed as an exception and needs none")]
fn an_exception_that_nobody_needs_is_a_finding() {
    holds_except("rule", "fix", &[], &["a.rs"]);
}
