//! What cases of a step exercise, and what they could: every function of the step with every way to end,
//! every function of a capability that the component imports with every case of its answer.
//!
//! What there is comes from the component's own imports and descriptor; what was exercised comes from the
//! cassettes of the cases. Branches inside the component are not counted.

use std::collections::{BTreeMap, BTreeSet};

use fettle_model::{
    cassette::{Answer, Cassette, Function, Outcome},
    descriptor::Descriptor,
};
use serde::Serialize;
use serde_json::Value;
use wasmtime::component::{Type, types::ComponentItem};

use crate::sandbox::Compiled;

/// Points by what they belong to: `files.stat` has `ok none`, `ok some`, `err not-found`, ...
pub type Points = BTreeMap<String, BTreeSet<String>>;

/// What a set of cases exercised.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Coverage {
    /// Of the step: its functions, each with the ways it ended.
    pub functions: Points,
    /// Of the node: the capability calls, each with the answers that were given.
    pub answers: Points,
    /// Codes of the failures.
    pub failures: BTreeSet<String>,
    /// Of the step: what no case reached.
    pub functions_missed: Points,
    /// Of the node: answers that no case gave.
    pub answers_missed: Points,
    /// All answers that there are.
    #[serde(skip)]
    all_answers: Points,
}

impl Coverage {
    /// Nothing so far, of what this component can do.
    #[must_use]
    pub fn of(compiled: &Compiled, descriptor: &Descriptor) -> Self {
        let mut functions_missed = Points::new();
        for function in Function::ALL {
            let offered = match function {
                Function::Probe => descriptor.probes,
                Function::Run => true,
                Function::Undo => descriptor.undoes,
            };
            if offered {
                let ends = ends(function).iter().map(|end| (*end).to_owned()).collect();
                functions_missed.insert(function.name().to_owned(), ends);
            }
        }
        let all_answers = answers(compiled);
        Self { functions_missed, answers_missed: all_answers.clone(), all_answers, ..Self::default() }
    }

    /// Counts what a case did.
    pub fn add(&mut self, recorded: &Cassette) {
        for played in &recorded.functions {
            let name = played.function.name();
            take(&mut self.functions_missed, &mut self.functions, name, played.outcome.name());
            if let Outcome::Failed(failure) = &played.outcome {
                self.failures.insert(failure.code.clone());
            }
            for call in &played.calls {
                if let Answer::Given(text) = &call.answer
                    && let Some(known) = self.all_answers.get(&call.name)
                {
                    take(&mut self.answers_missed, &mut self.answers, &call.name, &point(text, known));
                }
            }
        }
    }

    /// Points that were exercised, and all of them.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let size = |points: &Points| points.values().map(BTreeSet::len).sum::<usize>();
        let hit = size(&self.functions) + size(&self.answers);
        (hit, hit + size(&self.functions_missed) + size(&self.answers_missed))
    }
}

/// The ways in which a function can end.
const fn ends(function: Function) -> &'static [&'static str] {
    match function {
        Function::Probe => &["satisfied", "unsatisfied", "unknown", "failed"],
        Function::Run => &["answered", "failed"],
        Function::Undo => &["undone", "failed"],
    }
}

fn take(missed: &mut Points, hit: &mut Points, name: &str, point: &str) {
    if let Some(points) = missed.get_mut(name) {
        points.remove(point);
        if points.is_empty() {
            missed.remove(name);
        }
    }
    hit.entry(name.to_owned()).or_default().insert(point.to_owned());
}

/// What a component imports of capabilities, with the cases of each answer.
fn answers(compiled: &Compiled) -> Points {
    let engine = compiled.component().engine();
    let mut points = Points::new();
    for (name, import) in compiled.component().component_type().imports(engine) {
        let Some(capability) = name.strip_prefix("fettle:").and_then(|rest| rest.split('/').next()) else { continue };
        let ComponentItem::ComponentInstance(instance) = import.ty else { continue };
        for (function, export) in instance.exports(engine) {
            if let ComponentItem::ComponentFunc(described) = export.ty {
                let cases = described.results().flat_map(|answer| cases(&answer)).collect::<BTreeSet<String>>();
                if !cases.is_empty() {
                    points.insert(format!("{capability}.{function}"), cases);
                }
            }
        }
    }
    points
}

/// The cases of an answer, as [`point`] names them.
fn cases(answer: &Type) -> Vec<String> {
    let Type::Result(result) = answer else { return Vec::new() };
    let mut cases = match result.ok() {
        Some(Type::Option(_)) => vec!["ok none".to_owned(), "ok some".to_owned()],
        Some(Type::Bool) => vec!["ok true".to_owned(), "ok false".to_owned()],
        _ => vec!["ok".to_owned()],
    };
    match result.err() {
        Some(Type::Variant(variant)) => cases.extend(variant.cases().map(|case| format!("err {}", case.name))),
        Some(Type::Enum(names)) => cases.extend(names.names().map(|name| format!("err {name}"))),
        _ => cases.push("err".to_owned()),
    }
    cases
}

/// The case of a recorded answer, one of `known`.
fn point(text: &str, known: &BTreeSet<String>) -> String {
    let Ok(Value::Object(answer)) = serde_json::from_str::<Value>(text) else { return "answered".to_owned() };
    match answer.iter().next() {
        Some((side, Value::String(case))) if side == "err" => format!("err {case}"),
        Some((side, Value::Object(case))) if side == "err" => match case.keys().next() {
            Some(case) => format!("err {case}"),
            None => side.clone(),
        },
        Some((_, value)) if known.contains("ok none") => {
            (if value.is_null() { "ok none" } else { "ok some" }).to_owned()
        }
        Some((side, Value::Bool(value))) => format!("{side} {value}"),
        Some((side, _)) => side.clone(),
        None => "answered".to_owned(),
    }
}
