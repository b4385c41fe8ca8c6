//! Calls a step as the host does.

use serde_json::Value;

use crate::{Context, Failure, Observation, Step};

/// A step that is called with JSON, through the same text that crosses the sandbox.
#[derive(Clone, Debug)]
pub struct Trial<S> {
    step: S,
    context: Context,
}

impl<S: Step> Trial<S> {
    /// A trial of this step, in an attempt that is the first of everything.
    pub fn new(step: S) -> Self {
        let context = Context {
            operation_id: "operation".to_owned(),
            task_id: "task".to_owned(),
            step_id: "step".to_owned(),
            attempt: 1,
            correlation_id: "correlation".to_owned(),
        };
        Self { step, context }
    }

    /// What the step says of itself.
    ///
    /// # Panics
    /// When it is not JSON.
    #[must_use]
    pub fn describe(&self) -> Value {
        read(&self.step.describe())
    }

    /// Looks.
    ///
    /// # Errors
    /// What the step answers.
    ///
    /// # Panics
    /// When the answer is not JSON.
    pub fn probe(&self, input: &Value) -> Result<Observation<Value>, Failure> {
        self.step.probe(&self.context, &input.to_string())?.try_map(|output| Ok(read(&output)))
    }

    /// Runs.
    ///
    /// # Errors
    /// What the step answers.
    ///
    /// # Panics
    /// When the answer is not JSON.
    pub fn run(&self, input: &Value) -> Result<Value, Failure> {
        self.step.run(&self.context, &input.to_string()).map(|output| read(&output))
    }

    /// Takes back.
    ///
    /// # Errors
    /// What the step answers.
    pub fn undo(&self, input: &Value, output: Option<&Value>) -> Result<(), Failure> {
        let output = output.map(ToString::to_string);
        self.step.undo(&self.context, &input.to_string(), output.as_deref())
    }
}

#[expect(clippy::expect_used, reason = "tests only; a step that does not answer JSON has failed its test")]
fn read(text: &str) -> Value {
    serde_json::from_str(text).expect("a step answers JSON")
}
