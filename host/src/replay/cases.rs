//! An author's table of cases, and running it.

use std::collections::BTreeMap;

use fettle_model::{
    cassette::{Cassette, Function, Outcome},
    descriptor::Descriptor,
    failure::FailureClass,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ReplayError, Request, Script, answered, coverage::Coverage, replay, shown_outcome};
use crate::sandbox::{Compiled, Sandbox};

/// A table of cases.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// In the order in which they are run and shown.
    pub cases: Vec<Case>,
}

/// One case: what the step is asked, what the node answers, what is expected.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// A law, as a sentence.
    pub name: String,
    /// The function that is called; `run` when left out.
    #[serde(default = "run")]
    pub function: Function,
    /// The input; an empty object when left out.
    #[serde(default = "empty")]
    pub input: Value,
    /// What `run` had answered, for `undo`.
    #[serde(default)]
    pub output: Option<Value>,
    /// The node's answers by `capability.function`, each in the order in which they are asked for.
    #[serde(default)]
    pub answers: BTreeMap<String, Vec<Value>>,
    /// A recorded attempt to replay instead: a file beside the table.
    #[serde(default)]
    pub cassette: Option<String>,
    /// What is expected; a cassette expects itself.
    #[serde(default)]
    pub expect: Option<Expect>,
    /// The calls that are expected, all of them in order, but for reports.
    #[serde(default)]
    pub calls: Option<Vec<String>>,
}

/// What a case expects.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Expect {
    /// `run` answers this.
    Output(Value),
    /// `run` answers, or `probe` finds, at least the fields that are named here.
    Contains(Value),
    /// `probe` finds this.
    Satisfied(Value),
    /// `probe` does not; the difference contains this text.
    Unsatisfied(String),
    /// `probe` cannot tell; the reason contains this text.
    Unknown(String),
    /// `undo` succeeds.
    Undone(Done),
    /// It fails so.
    Failure(ExpectedFailure),
}

/// Nothing more to say: `undone: {}`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Done {}

/// How a case is expected to fail; what is left out may be anything.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedFailure {
    /// What may be done about it.
    pub class: Option<FailureClass>,
    /// Exactly this code.
    pub code: Option<String>,
    /// The message contains this text.
    pub message: Option<String>,
}

/// What became of a case.
#[derive(Clone, Debug, Serialize)]
pub struct Checked {
    /// Its name.
    pub name: String,
    /// The function that was called.
    pub function: Function,
    /// What the function came to.
    pub outcome: String,
    /// Capability calls.
    pub calls: usize,
    /// What is not as expected; none when all is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What became of a table.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// Of each case.
    pub cases: Vec<Checked>,
    /// Of all of them together.
    pub coverage: Coverage,
}

const fn run() -> Function {
    Function::Run
}

fn empty() -> Value {
    Value::Object(serde_json::Map::new())
}

impl Results {
    /// Whether every case is as expected.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.cases.iter().all(|case| case.problem.is_none())
    }
}

/// Runs all cases of a table. `cassettes` are the files that cases name.
///
/// # Errors
/// When the component cannot be run at all.
pub async fn check(
    sandbox: &Sandbox,
    compiled: &Compiled,
    descriptor: &Descriptor,
    table: &Table,
    cassettes: &BTreeMap<String, Cassette>,
) -> Result<Results, ReplayError> {
    let mut results = Results { cases: Vec::new(), coverage: Coverage::of(compiled, descriptor) };
    for case in &table.cases {
        let checked = match case.cassette.as_ref().map(|name| (name, cassettes.get(name))) {
            Some((_, Some(cassette))) => replayed(sandbox, compiled, case, cassette, &mut results.coverage).await?,
            Some((name, None)) => Checked {
                name: case.name.clone(),
                function: case.function,
                outcome: "not run".to_owned(),
                calls: 0,
                problem: Some(format!("cassette `{name}` is missing")),
            },
            None => scripted(sandbox, compiled, descriptor, case, &mut results.coverage).await?,
        };
        results.cases.push(checked);
    }
    Ok(results)
}

async fn replayed(
    sandbox: &Sandbox,
    compiled: &Compiled,
    case: &Case,
    cassette: &Cassette,
    coverage: &mut Coverage,
) -> Result<Checked, ReplayError> {
    let found = replay(sandbox, compiled, cassette).await?;
    let problem = match (&found.difference, &case.expect) {
        (Some(difference), _) => serde_json::to_string(difference).ok(),
        (None, Some(expect)) => cassette.outcome().and_then(|outcome| expect.problem(outcome)),
        (None, None) => None,
    };
    if found.same {
        coverage.add(cassette);
    }
    Ok(Checked {
        name: case.name.clone(),
        function: cassette.functions.last().map_or(case.function, |played| played.function),
        outcome: cassette.outcome().map_or("nothing", Outcome::name).to_owned(),
        calls: cassette.calls().count(),
        problem,
    })
}

async fn scripted(
    sandbox: &Sandbox,
    compiled: &Compiled,
    descriptor: &Descriptor,
    case: &Case,
    coverage: &mut Coverage,
) -> Result<Checked, ReplayError> {
    let script = Script::new(&case.answers);
    let (input, output) = (case.input.to_string(), case.output.as_ref().map(Value::to_string));
    let request = Request { function: case.function, input: &input, output: output.as_deref() };
    let ran = answered(sandbox, compiled, descriptor, &request, Box::new(script.clone())).await?;
    coverage.add(&ran.recorded);
    let calls: Vec<&str> = ran.recorded.calls().map(|call| call.name.as_str()).collect();
    let state = script.state();
    let outcome = ran.recorded.outcome().cloned().unwrap_or(Outcome::Interrupted);
    let left = state.left.iter().find(|(_, left)| **left > 0);
    let problem = if let Some(refused) = state.refused {
        Some(refused)
    } else if let Some(problem) = case.expect.as_ref().and_then(|expect| expect.problem(&outcome)) {
        Some(problem)
    } else if case.expect.is_none() {
        Some(format!("the case expects nothing, and the step came to {}; write `expect`", shown_outcome(&outcome)))
    } else if let Some((name, left)) = left {
        Some(format!("{left} answers of {name} were never asked for"))
    } else {
        case.calls.as_ref().and_then(|expected| unexpected_calls(expected, &calls))
    };
    Ok(Checked {
        name: case.name.clone(),
        function: case.function,
        outcome: outcome.name().to_owned(),
        calls: calls.len(),
        problem,
    })
}

fn unexpected_calls(expected: &[String], actual: &[&str]) -> Option<String> {
    let actual: Vec<&str> = actual.iter().copied().filter(|name| !name.starts_with("report.")).collect();
    (actual != expected).then(|| format!("it calls {}, and {} was expected", actual.join(", "), expected.join(", ")))
}

/// Whether everything that `expected` names is so in `actual`.
fn contains(actual: &Value, expected: &Value) -> bool {
    match (actual, expected) {
        (Value::Object(actual), Value::Object(expected)) => {
            expected.iter().all(|(name, value)| actual.get(name).is_some_and(|actual| contains(actual, value)))
        }
        _ => actual == expected,
    }
}

impl Expect {
    /// What of an outcome is not as expected.
    fn problem(&self, outcome: &Outcome) -> Option<String> {
        let holds = match (self, outcome) {
            (Self::Output(expected), Outcome::Answered(text))
            | (Self::Satisfied(expected), Outcome::Satisfied(text)) => {
                serde_json::from_str::<Value>(text).is_ok_and(|actual| &actual == expected)
            }
            (Self::Contains(expected), Outcome::Answered(text) | Outcome::Satisfied(text)) => {
                serde_json::from_str::<Value>(text).is_ok_and(|actual| contains(&actual, expected))
            }
            (Self::Unsatisfied(expected), Outcome::Unsatisfied(text))
            | (Self::Unknown(expected), Outcome::Unknown(text)) => text.contains(expected.as_str()),
            (Self::Undone(_), Outcome::Undone) => true,
            (Self::Failure(expected), Outcome::Failed(failure)) => {
                expected.class.is_none_or(|class| class == failure.class)
                    && expected.code.as_ref().is_none_or(|code| *code == failure.code)
                    && expected.message.as_ref().is_none_or(|text| failure.message.contains(text.as_str()))
            }
            _ => false,
        };
        (!holds).then(|| format!("it came to {}; {self} was expected", shown_outcome(outcome)))
    }
}

impl std::fmt::Display for Expect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Output(value) => write!(f, "output {value}"),
            Self::Contains(value) => write!(f, "an output with {value}"),
            Self::Satisfied(value) => write!(f, "satisfied {value}"),
            Self::Unsatisfied(text) => write!(f, "unsatisfied with `{text}`"),
            Self::Unknown(text) => write!(f, "unknown with `{text}`"),
            Self::Undone(_) => f.write_str("undone"),
            Self::Failure(ExpectedFailure { class, code, message }) => {
                f.write_str("a failure")?;
                if let Some(class) = class {
                    write!(f, " of class {}", serde_json::to_string(class).unwrap_or_default())?;
                }
                if let Some(code) = code {
                    write!(f, " with code `{code}`")?;
                }
                if let Some(message) = message {
                    write!(f, " that says `{message}`")?;
                }
                Ok(())
            }
        }
    }
}
