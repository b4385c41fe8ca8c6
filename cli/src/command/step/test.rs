//! `fettle step test`

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use clap::Args;
use fettle_host::replay::{
    cases::{self, Results, Table},
    coverage::Points,
};
use serde_json::json;

use super::{
    Session,
    build::{Build, Builder},
    component::{Component, cassette},
};
use crate::{
    error::{CommandError, count},
    supply::{TrustArguments, read_document},
};

/// Runs a table of cases against a component, in the real sandbox, and says what they cover.
///
/// A crate is built first, exactly as `fettle step build` does it; without an argument it is the crate in
/// the current directory, and its table is the `cases.yaml` beside its Cargo.toml.
///
/// A case says which function is called with which input, what the node answers (by hand, or from a
/// cassette) and what is expected. What is counted as covered: each function of the step with each way to
/// end, and each capability function that the component imports with each case of its answer. The exit code
/// is 1 when a case is not as expected.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle step test
  fettle step test steps/my-step
  fettle step test target/wasm32-wasip2/step/my_step.wasm cases.yaml
  fettle step test my_step.wasm cases.yaml --json

cases.yaml:
  cases:
    - name: a file that is there is satisfied
      function: probe
      input: { path: data/x }
      answers: { files.stat: [{ ok: { kind: regular, size: 3, mode: 420, user-id: 0, group-id: 0 } }] }
      expect: { satisfied: { size: 3 } }")]
pub struct Test {
    /// A crate's directory, or a component. The current directory when left out.
    #[arg(value_name = "DIR|FILE|REFERENCE")]
    subject: Option<String>,
    /// The table; `cases.yaml` of the crate, or of the current directory, when left out.
    #[arg(value_name = "CASES")]
    cases: Option<PathBuf>,
    #[command(flatten)]
    builder: Builder,
    #[command(flatten)]
    trust: TrustArguments,
}

/// What is tested.
enum Subject {
    /// A crate, by its directory.
    Crate(PathBuf),
    /// A component, by its file or its reference.
    Component(String),
}

/// The shortest table that is valid, for whoever has none.
const SHORTEST: &str = "\
cases:
  - name: it answers
    expect: { contains: {} }";

impl Test {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let subject = self.subject()?;
        let path = self.cases.clone().unwrap_or_else(|| subject.cases());
        // Before anything is built, which takes its time.
        let table = table(&path)?;
        let mut cassettes = BTreeMap::new();
        for name in table.cases.iter().filter_map(|case| case.cassette.as_ref()) {
            cassettes.insert(name.clone(), cassette(&path.with_file_name(name)).await?);
        }
        let component = self.component(session, &subject).await?;
        let Component { sandbox, compiled, descriptor, .. } = &component;
        let results = cases::check(sandbox, compiled, descriptor, &table, &cassettes)
            .await
            .map_err(|source| CommandError::Replay { path: component.path.clone(), source })?;
        let (covered, all) = results.coverage.counts();
        let answer = json!({
            "kind": component.descriptor.kind, "passed": results.passed(),
            "cases": results.cases, "covered": covered, "coverable": all, "coverage": results.coverage,
        });
        session.show(&answer, |_| text(&results))?;
        if results.passed() { Ok(()) } else { Err(CommandError::Differs("a case is not as expected")) }
    }

    fn subject(&self) -> Result<Subject, CommandError> {
        match &self.subject {
            Some(name) if Path::new(name).is_dir() => Ok(Subject::Crate(PathBuf::from(name))),
            Some(name) => Ok(Subject::Component(name.clone())),
            None if Path::new("Cargo.toml").is_file() => Ok(Subject::Crate(PathBuf::from("."))),
            None => Err(CommandError::Missing {
                problem: "it is not said what to test, and this directory has no Cargo.toml".to_owned(),
                fix: "name the directory of a step's crate, or a component that was built".to_owned(),
            }),
        }
    }

    async fn component(&self, session: &Session, subject: &Subject) -> Result<Component, CommandError> {
        match subject {
            Subject::Crate(directory) => {
                let (path, content) = Build::of(directory, self.builder.clone()).publishable().await?;
                Component::compile(&path, content).await
            }
            Subject::Component(name) => Component::load(session, name, &self.trust).await,
        }
    }
}

impl Subject {
    /// Where its table is unless said otherwise.
    fn cases(&self) -> PathBuf {
        match self {
            Self::Crate(directory) => directory.strip_prefix(".").unwrap_or(directory).join("cases.yaml"),
            Self::Component(_) => PathBuf::from("cases.yaml"),
        }
    }
}

/// Reads a table, which has to have cases: without any, nothing could fail.
fn table(path: &Path) -> Result<Table, CommandError> {
    let missing = |problem: String| CommandError::NotThere {
        problem,
        fix: format!("write what the step does on each answer of the node; the shortest table is:\n\n{SHORTEST}\n"),
    };
    if !path.exists() {
        return Err(missing(format!("there is no table of cases {}", path.display())));
    }
    let table: Table = read_document(path, "table of cases")?;
    if table.cases.is_empty() {
        return Err(missing(format!("the table {} has no case", path.display())));
    }
    Ok(table)
}

/// Columns of a case's name, so that a line has 80.
const NAME: usize = 46;

fn text(results: &Results) -> String {
    let mut text = format!("{:<NAME$}  {:<8} {:<11} CALLS\n", "CASE", "FUNCTION", "OUTCOME");
    for case in &results.cases {
        let name = console::truncate_str(&case.name, NAME, "…");
        let verdict = if case.problem.is_none() { "ok" } else { "FAIL" };
        let line = format!(
            "{}  {:<8} {:<11} {:>5}  {verdict}",
            console::pad_str(&name, NAME, console::Alignment::Left, None),
            case.function.name(),
            case.outcome,
            case.calls
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    for case in &results.cases {
        if let Some(problem) = &case.problem {
            let _ = writeln!(text, "\n{}\n  {problem}", case.name);
        }
    }
    let coverage = &results.coverage;
    let (covered, all) = coverage.counts();
    let _ = writeln!(text, "\n{}; {covered} of {all} ways covered", count(results.cases.len(), "case"));
    text.push_str(&points("covered", &[&coverage.functions, &coverage.answers]));
    if !coverage.failures.is_empty() {
        let codes: Vec<&str> = coverage.failures.iter().map(String::as_str).collect();
        text.push_str(&entry("failures", &codes));
    }
    text.push_str(&points("NOT covered", &[&coverage.functions_missed, &coverage.answers_missed]));
    text
}

fn points(heading: &str, all: &[&Points]) -> String {
    let mut text = String::new();
    for (name, points) in all.iter().flat_map(|points| points.iter()) {
        let points: Vec<&str> = points.iter().map(String::as_str).collect();
        text.push_str(&entry(name, &points));
    }
    if text.is_empty() { text } else { format!("\n{heading}\n{text}") }
}

/// `  files.stat            ok none, ok some`, wrapped at 80 columns.
fn entry(name: &str, points: &[&str]) -> String {
    const INDENT: usize = 26;
    let mut text = String::new();
    let mut line = format!("  {name:<width$}", width = INDENT - 2);
    for (index, point) in points.iter().enumerate() {
        let separator = if index + 1 < points.len() { ", " } else { "" };
        if line.len() > INDENT && line.len() + point.len() + separator.len() > 80 {
            let _ = writeln!(text, "{}", line.trim_end());
            line = " ".repeat(INDENT);
        }
        line.push_str(point);
        line.push_str(separator);
    }
    let _ = writeln!(text, "{}", line.trim_end());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_without_cases_is_told_the_shortest_one_which_is_valid() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cases.yaml");
        for content in [None, Some("cases: []")] {
            if let Some(content) = content {
                std::fs::write(&path, content).unwrap();
            }
            let error = table(&path).unwrap_err();
            assert_eq!(error.exit(), crate::exit::Exit::NotFound);
            let help = error.help().unwrap();
            assert!(error.to_string().contains("cases.yaml"), "{error}");
            let shown = help.split_once("\n\n").unwrap().1;
            std::fs::write(&path, shown).unwrap();
            assert_eq!(table(&path).unwrap().cases.len(), 1, "{shown}");
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn lines_are_no_longer_than_a_terminal() {
        let points: Vec<String> = (0..20).map(|number| format!("err number-{number}")).collect();
        let points: Vec<&str> = points.iter().map(String::as_str).collect();
        let text = entry("transfer.pull-manifest", &points);
        assert!(text.lines().count() > 3 && text.lines().all(|line| line.len() <= 80), "{text}");
    }
}
