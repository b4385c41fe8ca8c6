//! What the documents name exists.

use std::{collections::BTreeSet, path::Path};

use crate::{
    report::holds,
    source::{everything, files, is_test, root, text},
};

/// All Markdown files of the repository.
fn documents() -> Vec<String> {
    files(".", "md").into_iter().map(|path| path.trim_start_matches("./").to_owned()).collect()
}

/// The text outside code blocks, with line numbers.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut inside = false;
    let mut prose = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            prose.push((index + 1, line));
        }
    }
    prose
}

/// Targets of `[text](target)` in a line.
fn links(line: &str) -> Vec<&str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect()
}

/// What stands between single backquotes in a line.
fn quoted(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

/// The heading's anchor, as code hosts make it.
fn anchor(heading: &str) -> String {
    let lower = heading.trim_start_matches('#').trim().to_lowercase();
    lower
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut findings = Vec::new();
    for path in documents() {
        let document = text(&path);
        let here = root().join(&path).parent().unwrap().to_owned();
        for (line, words) in prose(&document) {
            for link in links(words).into_iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
                let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
                let target = if file.is_empty() { root().join(&path) } else { here.join(file) };
                if !target.exists() {
                    findings.push(format!("{path}:{line}: `{link}` does not exist"));
                } else if !fragment.is_empty() && target.extension().is_some_and(|ending| ending == "md") {
                    let headings = std::fs::read_to_string(&target).unwrap();
                    if !headings.lines().any(|line| line.starts_with('#') && anchor(line) == fragment) {
                        findings.push(format!("{path}:{line}: `{link}` has no such heading"));
                    }
                }
            }
        }
    }
    holds("every link inside the repository leads somewhere", "correct the link, or write what it leads to", &findings);
}

/// Documents whose quoted paths are meant from the repository's root.
const FROM_ROOT: [&str; 3] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];

/// Whether a quoted word is meant as a path of the repository.
fn is_path(word: &str) -> bool {
    let first = word.split('/').next().unwrap_or_default();
    word.contains('/')
        && !word.contains([' ', '<', '*', '{', '$', '@', ':', '=', '(', '…'])
        && root().join(first).is_dir()
        && !first.is_empty()
        && !first.starts_with("target")
}

#[test]
fn every_path_that_a_document_names_exists() {
    let mut findings = Vec::new();
    for path in FROM_ROOT {
        for (line, words) in prose(&text(path)) {
            for word in quoted(words).into_iter().filter(|word| is_path(word)) {
                if !root().join(word).exists() {
                    findings.push(format!("{path}:{line}: `{word}` does not exist"));
                }
            }
        }
    }
    holds("every path that a document names exists", "correct the path", &findings);
}

/// `file.rs::test` in a document.
fn named_tests(document: &str) -> Vec<(usize, &str, &str)> {
    let words =
        prose(document).into_iter().flat_map(|(line, words)| quoted(words).into_iter().map(move |word| (line, word)));
    words
        .filter_map(|(line, word)| {
            let (file, test) = word.split_once("::")?;
            let is_file = Path::new(file).extension().is_some_and(|ending| ending == "rs");
            (is_file && file.contains('/')).then_some((line, file, test))
        })
        .collect()
}

/// Names of the test functions of a file, at any depth.
fn tests_of(path: &str) -> BTreeSet<String> {
    fn collect(items: &[syn::Item], found: &mut BTreeSet<String>) {
        for item in items {
            match item {
                syn::Item::Fn(function) if is_test(&function.attrs) => {
                    found.insert(function.sig.ident.to_string());
                }
                syn::Item::Mod(module) => {
                    collect(module.content.as_ref().map_or(&[], |(_, items)| items), found);
                }
                _ => {}
            }
        }
    }
    let mut found = BTreeSet::new();
    if root().join(path).is_file() {
        let source = crate::source::read(path);
        collect(&source.syntax.items, &mut found);
        // Laws of the store are plain functions that a macro lists; their file runs them.
        if path.starts_with("plane/store/src/laws/") {
            found.extend(source.syntax.items.iter().filter_map(|item| match item {
                syn::Item::Fn(function) if matches!(function.vis, syn::Visibility::Public(_)) => {
                    Some(function.sig.ident.to_string())
                }
                _ => None,
            }));
        }
    }
    found
}

#[test]
fn every_test_that_a_document_names_exists() {
    let mut findings = Vec::new();
    let mut named = 0;
    for path in documents() {
        for (line, file, test) in named_tests(&text(&path)) {
            named += 1;
            if !tests_of(file).contains(test) {
                findings.push(format!("{path}:{line}: there is no test `{test}` in {file}"));
            }
        }
    }
    assert!(named > 40, "only {named} tests are named in documents; correct the test");
    holds("every test that a document names exists", "name the test that keeps the rule, or write it", &findings);
}

#[test]
fn every_rule_here_is_in_the_architecture() {
    let architecture = text("ARCHITECTURE.md");
    let named: BTreeSet<(String, String)> =
        named_tests(&architecture).into_iter().map(|(_, file, test)| (file.to_owned(), test.to_owned())).collect();
    let mut findings = Vec::new();
    for source in everything(&["tests/invariants/src"]) {
        // Tests of this crate's own reading of sources are no rules.
        let own = ["source.rs", "report.rs"].iter().any(|name| source.path.ends_with(name));
        for test in tests_of(&source.path).into_iter().filter(|_| !own) {
            let is_self_check = test.starts_with("urls_are") || test.starts_with("an_unsafe_block");
            if !is_self_check && !named.contains(&(source.path.clone(), test.clone())) {
                findings.push(format!("{}: `{test}` keeps a rule that ARCHITECTURE.md does not name", source.path));
            }
        }
    }
    holds("every rule of this crate is in ARCHITECTURE.md", "add a row to its table of invariants", &findings);
}

#[test]
fn every_invariant_names_its_test() {
    let architecture = text("ARCHITECTURE.md");
    let section = architecture
        .split("\n## Invariants")
        .nth(1)
        .unwrap_or_else(|| panic!("ARCHITECTURE.md has no section `Invariants`"));
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with('|')).skip(2).collect();
    assert!(rows.len() > 20, "only {} invariants were found; correct the test", rows.len());
    let findings: Vec<String> = rows
        .iter()
        .filter(|row| named_tests(row).is_empty() && !row.contains("---"))
        .filter(|row| !row.contains("| kept by"))
        .map(|row| format!("ARCHITECTURE.md: `{row}` names no test"))
        .collect();
    holds(
        "every invariant names the test that keeps it",
        "write `path/to/file.rs::name` in its last column",
        &findings,
    );
}

#[test]
fn policy_bundles_in_the_repository_are_valid() {
    use fettle_model::{document, policy::PolicyBundle};

    let how_to = "docs/how-to/write-a-policy-bundle.md";
    let page = text(how_to);
    let example = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap_or_default();
    let mut bundles = vec![(how_to.to_owned(), example.to_owned())];
    bundles.extend(files("policies/bundles", "yaml").into_iter().map(|path| (path.clone(), text(&path))));
    let mut findings = Vec::new();
    for (path, bundle) in bundles {
        match document::read::<PolicyBundle>(&bundle) {
            Ok(bundle) => findings.extend(bundle.check().err().map(|violations| format!("{path}: {violations}"))),
            Err(error) => findings.push(format!("{path}: {error}")),
        }
    }
    holds("policy bundles in documents and in `policies` are valid", "correct the bundle", &findings);
}
