use std::{collections::BTreeSet, fmt::Write as _, path::Path};

use super::CODES;

/// Conflicts of stores that no endpoint answers: they are said to nodes, or on the command line.
const NOT_OF_THE_API: [&str; 14] = [
    "node.key_taken",
    "node.name_taken",
    "node.revoked",
    "project.other_organisation",
    "task.not_canceled",
    "task.step_not_succeeded",
    "token.name_taken",
    "node_set.unknown",
    "token.not_valid",
    "lease.stale",
    "credential.provider_malformed",
    "credential.provider_unavailable",
    "credential.scope",
    "credential.too_many",
];

/// Every code that was ever in a release. Lines are added, and never taken away.
const KNOWN: &str = include_str!("known.txt");

fn names() -> BTreeSet<&'static str> {
    CODES.iter().map(|code| code.name).collect()
}

#[test]
fn a_code_never_vanishes() {
    let known: BTreeSet<_> = KNOWN.lines().collect();
    let (names, mut sorted) = (names(), KNOWN.lines().collect::<Vec<_>>());
    let gone: Vec<_> = known.difference(&names).collect();
    let new: Vec<_> = names.difference(&known).collect();
    assert!(gone.is_empty(), "programs look at these codes; put them back into plane/src/api/codes.rs: {gone:?}");
    assert!(new.is_empty(), "add these codes to plane/src/api/codes/known.txt: {new:?}");
    sorted.sort_unstable();
    assert!(KNOWN.lines().eq(sorted), "plane/src/api/codes/known.txt is sorted");
}

#[test]
fn a_code_has_one_status() {
    assert_eq!(names().len(), CODES.len());
    assert!(CODES.is_sorted_by_key(|code| code.status.as_u16()));
    for code in CODES {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_' || byte == b'.';
        assert!(code.name.bytes().all(plain) && code.status.as_u16() >= 400, "{}", code.name);
    }
}

/// The first text after each place where a problem is made.
fn made(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            made(&path, found);
            continue;
        }
        if path.extension().is_none_or(|ending| ending != "rs") || path.ends_with("tests.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for beginning in ["StoreError::conflict(", "Problem::not_found(", "Self::new(StatusCode::", "Self::not_found("]
        {
            for part in text.split(beginning).skip(1) {
                let literal = part.split('"').nth(1).unwrap_or_default();
                let before = part.split('"').next().unwrap_or_default();
                let is_code = literal.contains('.') && !literal.contains([' ', '{']);
                if is_code && before.len() < 60 && !before.contains(';') {
                    found.insert(literal.to_owned());
                }
            }
        }
    }
}

#[test]
fn every_code_that_is_made_is_in_the_table() {
    let mut found = BTreeSet::new();
    for place in ["src", "store/rows/src", "store/sqlite/src", "store/postgres/src"] {
        made(&Path::new(env!("CARGO_MANIFEST_DIR")).join(place), &mut found);
    }
    let names = names();
    assert!(found.len() > 20, "only {found:?} were found; correct the test");
    let missing: Vec<_> = found
        .iter()
        .filter(|code| !names.contains(code.as_str()) && !NOT_OF_THE_API.contains(&code.as_str()))
        .collect();
    assert!(missing.is_empty(), "add these to plane/src/api/codes.rs: {missing:?}");
}

fn page() -> String {
    let mut text = String::from(
        "# Error codes\n\n\
         What the API answers instead of a result is a problem document (RFC 9457, `application/problem+json`) with `type`,\n\
         `title`, `status`, `code`, `detail`, and where several things are wrong `violations`, each with the place in the\n\
         request (a JSON pointer, or the name of a parameter), the rule and the fix. Programs should look at `code`: it\n\
         never changes and never vanishes. Texts change. `type` is `urn:fettle:problem:` and the code.\n\n\
         This page is written by a test from the table that the plane answers from (`plane/src/api/codes.rs`). Which\n\
         endpoint answers which code is in [the reference of the API](api.md). What operations and steps fail with is\n\
         in `failure.code` of an operation; [debugging one](../how-to/debug-a-failed-operation.md) is about those.\n\n\
         | status | code | what it says | what to do |\n|---|---|---|---|\n",
    );
    for code in CODES {
        let status = code.status.as_u16();
        let _ = writeln!(text, "| {status} | `{}` | {} | {} |", code.name, code.meaning, code.remedy);
    }
    text
}

#[test]
fn the_page_of_error_codes_is_what_the_plane_answers() {
    crate::reference::holds("error-codes.md", &page(), "the_page_of_error_codes");
}
