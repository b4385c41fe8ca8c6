//! Between the generated bindings and [`Step`](crate::Step). Called by what `export!` writes.

pub use crate::bindings::{
    exports::fettle::step::step::Guest,
    fettle::step::types::{Context, Failure, Observation},
};
use crate::{FailureClass, Step, bindings::fettle::step::types};

pub fn probe(step: &impl Step, context: Context, input: &str) -> Result<Observation, Failure> {
    Ok(match step.probe(&context.into(), input)? {
        crate::Observation::Satisfied(output) => Observation::Satisfied(output),
        crate::Observation::Unsatisfied(difference) => Observation::Unsatisfied(difference),
        crate::Observation::Unknown(reason) => Observation::Unknown(reason),
    })
}

pub fn run(step: &impl Step, context: Context, input: &str) -> Result<String, Failure> {
    Ok(step.run(&context.into(), input)?)
}

pub fn undo(step: &impl Step, context: Context, input: &str, output: Option<&str>) -> Result<(), Failure> {
    Ok(step.undo(&context.into(), input, output)?)
}

impl From<Context> for crate::Context {
    fn from(context: Context) -> Self {
        let Context { operation_id, task_id, step_id, attempt, correlation_id } = context;
        Self { operation_id, task_id, step_id, attempt, correlation_id }
    }
}

impl From<crate::Failure> for Failure {
    fn from(failure: crate::Failure) -> Self {
        let crate::Failure { class, code, message } = failure;
        Self { class: class.into(), code, message }
    }
}

impl From<FailureClass> for types::FailureClass {
    fn from(class: FailureClass) -> Self {
        match class {
            FailureClass::InvalidInput => Self::InvalidInput,
            FailureClass::Denied => Self::Denied,
            FailureClass::Transient => Self::Transient,
            FailureClass::Permanent => Self::Permanent,
            FailureClass::Unknown => Self::Unknown,
            FailureClass::Canceled => Self::Canceled,
        }
    }
}
