//! Which metrics an expression asks for, and with which labels.

use std::collections::{BTreeMap, BTreeSet};

use fettle_telemetry::metric::Kind;

use crate::descriptions;

/// Words of the language that are not followed by a parenthesis.
const WORDS: [&str; 5] = ["and", "or", "unless", "offset", "bool"];

/// What Prometheus makes itself for everything that it fetches.
const OWN: [&str; 1] = ["up"];

/// Labels that Prometheus adds to everything that it fetches.
const ADDED: [&str; 2] = ["job", "instance"];

/// Every name of a series that the programs have, with its labels.
pub(crate) fn known() -> BTreeMap<String, BTreeSet<String>> {
    let mut known = BTreeMap::new();
    for description in descriptions().into_iter().flat_map(|(_, descriptions)| descriptions) {
        let endings: &[&str] = if description.kind == Kind::Histogram { &["_bucket", "_sum", "_count"] } else { &[""] };
        for ending in endings {
            let mut labels: BTreeSet<String> = description.labels.iter().map(ToString::to_string).collect();
            labels.extend(ADDED.map(str::to_owned));
            labels.extend((*ending == "_bucket").then(|| "le".to_owned()));
            known.insert(format!("{}{ending}", description.name), labels);
        }
    }
    for name in OWN {
        known.insert(name.to_owned(), BTreeSet::from(ADDED.map(str::to_owned)));
    }
    known
}

/// An expression without the texts in it.
fn without_texts(expression: &str) -> String {
    expression.split('"').step_by(2).collect::<Vec<_>>().join("\"\"")
}

/// Without what stands between these two, and answers that too.
fn take_out(text: &str, open: char, close: char) -> (String, Vec<String>) {
    let mut parts = text.split(open);
    let mut rest = parts.next().unwrap_or_default().to_owned();
    let mut inside = Vec::new();
    for part in parts {
        let (taken, after) = part.split_once(close).unwrap_or((part, ""));
        inside.push(taken.to_owned());
        rest.push_str(after);
    }
    (rest, inside)
}

fn words(text: &str) -> Vec<(&str, bool)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '_') {
        let word = &rest[start..];
        // Part of a number, like the second of `1e3`.
        let is_number = rest[..start].ends_with(|c: char| c.is_ascii_digit() || c == '.');
        let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
        let (word, after) = word.split_at(end);
        if !is_number {
            words.push((word, after.trim_start().starts_with('(')));
        }
        rest = after;
    }
    words
}

/// The series and the labels that an expression names.
pub(crate) fn named(expression: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let (rest, selectors) = take_out(&without_texts(expression), '{', '}');
    let (rest, _) = take_out(&rest, '[', ']');
    let mut labels = BTreeSet::new();
    for selector in selectors {
        labels.extend(words(&selector).into_iter().map(|(word, _)| word.to_owned()));
    }
    // `by (a, b)` and `on (a)` name labels too.
    let mut plain = String::new();
    let mut pieces = rest.as_str();
    while let Some((at, word)) =
        ["by (", "on (", "without ("].iter().filter_map(|word| Some((pieces.find(word)?, *word))).min()
    {
        plain.push_str(&pieces[..at]);
        let (list, after) = pieces[at + word.len()..].split_once(')').unwrap_or_default();
        labels.extend(words(list).into_iter().map(|(word, _)| word.to_owned()));
        pieces = after;
    }
    plain.push_str(pieces);
    let series = words(&plain).into_iter().filter(|(word, is_function)| !is_function && !WORDS.contains(word));
    (series.map(|(word, _)| word.to_owned()).collect(), labels)
}

/// What of an expression exists nowhere. `recorded` are names that rules make.
pub(crate) fn unknown(expression: &str, recorded: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let known = known();
    let (series, labels) = named(expression);
    assert!(!series.is_empty(), "no metric was found in `{expression}`; correct the test");
    let found: Vec<_> = series.iter().map(|name| (name, known.get(name).or_else(|| recorded.get(name)))).collect();
    let mut missing: Vec<String> =
        found.iter().filter(|(_, labels)| labels.is_none()).map(|(name, _)| format!("metric `{name}`")).collect();
    let has = |label: &String| found.iter().any(|(_, labels)| labels.is_some_and(|labels| labels.contains(label)));
    missing.extend(labels.iter().filter(|label| !has(label)).map(|label| format!("label `{label}`")));
    missing
}

#[test]
fn names_are_found_in_expressions() {
    let (series, labels) = named(
        r#"histogram_quantile(0.99, sum by (le, verb) (rate(a_bucket{x=~"b_{1}|c"}[5m]))) > 1e3 and on (job) r:d:c offset 5m"#,
    );
    assert_eq!(series, ["a_bucket", "r:d:c"].map(str::to_owned).into());
    assert_eq!(labels, ["job", "le", "verb", "x"].map(str::to_owned).into());
}

#[test]
fn what_does_not_exist_is_found() {
    let none = BTreeMap::new();
    assert_eq!(unknown(r#"rate(fettle_tasks{status="ready"}[5m])"#, &none), Vec::<String>::new());
    assert_eq!(unknown("sum by (node) (fettle_taks)", &none), ["metric `fettle_taks`", "label `node`"]);
    assert_eq!(unknown("fettle_step_duration_ms", &none), ["metric `fettle_step_duration_ms`"]);
}
