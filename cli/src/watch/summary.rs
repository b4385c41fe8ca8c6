//! What is said when an operation is over.

use std::{fmt::Write as _, time::Duration};

use fettle_model::operation::{OperationStatus, StepStatus};
use jiff::Timestamp;

use super::text::{clean, duration};
use crate::{
    error::count,
    plane::{Operation, Step},
};

/// How it ended, why, and what to type next.
#[must_use]
pub fn text(operation: &Operation) -> String {
    let id = &operation.operation_id;
    let steps = operation.steps.as_deref().unwrap_or_default();
    let mut text = format!("{}{}: {}\n", operation.status, took(operation), tally(steps));
    let failed = steps.iter().find(|step| step.status == StepStatus::Failed);
    match (&operation.failure, failed) {
        (Some(failure), Some(step)) => {
            let _ = writeln!(text, "  step {}: {}", clean(&operation.step_name(step)), clean(&failure.to_string()));
        }
        (Some(failure), None) => {
            let _ = writeln!(text, "  {}", clean(&failure.to_string()));
        }
        (None, _) => {}
    }
    match (operation.status, failed) {
        (OperationStatus::Failed, Some(step)) => {
            let _ = writeln!(text, "  log     fettle operation logs {id} --step {}", step.step_id);
        }
        _ => {
            let _ = writeln!(text, "  log     fettle operation logs {id}");
        }
    }
    let _ = writeln!(text, "  result  fettle operation show {id}");
    text
}

fn took(operation: &Operation) -> String {
    let time = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<Timestamp>().ok());
    let (Some(start), Some(end)) = (time(&operation.started_at), time(&operation.finished_at)) else {
        return String::new();
    };
    let took = Duration::try_from(end.duration_since(start)).map(duration).unwrap_or_default();
    match operation.status {
        OperationStatus::Succeeded => format!(" in {took}"),
        OperationStatus::Queued | OperationStatus::Running | OperationStatus::Failed | OperationStatus::Canceled => {
            format!(" after {took}")
        }
    }
}

fn tally(steps: &[Step]) -> String {
    let mut parts = vec![count(steps.len(), "step")];
    let mut add = |number: usize, word: &str| {
        if number > 0 {
            parts.push(format!("{number} {word}"));
        }
    };
    let with = |status: StepStatus| steps.iter().filter(move |step| step.status == status);
    add(with(StepStatus::Succeeded).filter(|step| step.changed != Some(false)).count(), "changed");
    add(with(StepStatus::Succeeded).filter(|step| step.changed == Some(false)).count(), "unchanged");
    add(with(StepStatus::Failed).count(), "failed");
    add(with(StepStatus::Skipped).count(), "skipped");
    add(with(StepStatus::Canceled).count(), "canceled");
    parts.join(", ")
}
