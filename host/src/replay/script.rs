//! Answers that an author wrote down: for each function of a capability, one after another.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use fettle_model::cassette::{Answer, Blobs, Function};
use serde_json::Value;

use crate::sandbox::tape::{Answers, Given};

/// Functions that answer nothing; they need no answer in a script.
const SILENT: [&str; 2] = ["report.log", "report.progress"];

/// Answers by `capability.function`.
#[derive(Clone, Debug, Default)]
pub struct Script {
    answers: BTreeMap<String, VecDeque<Value>>,
    state: Arc<Mutex<Scripted>>,
}

/// What became of a script.
#[derive(Clone, Debug, Default)]
pub struct Scripted {
    /// Why the component got no answer, once it did not.
    pub refused: Option<String>,
    /// Answers that nobody asked for.
    pub left: BTreeMap<String, usize>,
}

impl Script {
    /// A script with these answers.
    #[must_use]
    pub fn new(answers: &BTreeMap<String, Vec<Value>>) -> Self {
        let answers: BTreeMap<String, VecDeque<Value>> =
            answers.iter().map(|(name, answers)| (name.clone(), answers.iter().cloned().collect())).collect();
        let left = answers.iter().map(|(name, answers)| (name.clone(), answers.len())).collect();
        Self { answers, state: Arc::new(Mutex::new(Scripted { refused: None, left })) }
    }

    /// What became of it so far.
    #[must_use]
    pub fn state(&self) -> Scripted {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn refuse(&self, reason: String) -> String {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).refused.get_or_insert(reason).clone()
    }
}

impl Answers for Script {
    fn begin(&mut self, _function: Function) {}

    fn answer(&mut self, name: &str, arguments: &str) -> Result<Given, String> {
        let given = |value: &Value| Given { answer: Answer::Given(value.to_string()), blobs: Arc::new(Blobs::new()) };
        let next = self.answers.get_mut(name).and_then(VecDeque::pop_front);
        match next {
            Some(value) => {
                if let Some(left) = self.state.lock().unwrap_or_else(PoisonError::into_inner).left.get_mut(name) {
                    *left -= 1;
                }
                Ok(given(&value))
            }
            None if SILENT.contains(&name) => Ok(given(&Value::Null)),
            None => {
                let arguments: String = arguments.chars().take(200).collect();
                Err(self.refuse(format!(
                    "the step calls {name}{arguments}, and the case has no answer left for it; add one to `answers: {{ {name}: [...] }}`"
                )))
            }
        }
    }

    fn unfit(&mut self, name: &str, reason: &str) -> String {
        self.refuse(format!("the case's answer to {name} is not what the contract says: {reason}"))
    }
}
