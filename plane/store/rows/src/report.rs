//! What is stored of a report.

use fettle_model::{
    name::StepId,
    operation::{StepOutcome, StepStatus},
};
use fettle_store::{StoreError, context::Context, id::TaskId};
use jiff::Timestamp;
use serde_json::{Value, json};
use sqlx::FromRow;

use crate::{row, subject::with, task::Held};

/// What an event's payload says of its step.
#[derive(FromRow)]
pub struct ProgressRow {
    /// The kind of the step.
    pub kind: String,
    step_index: i64,
    started_at: Option<i64>,
    percent: Option<i64>,
    attempt_number: i64,
}

impl ProgressRow {
    /// The payload of `operation.progress`.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn payload(
        &self,
        held: &Held,
        step_id: &StepId,
        status: StepStatus,
        fields: Value,
    ) -> Result<Value, StoreError> {
        let facts = json!({
            "node_id": held.node_id,
            "current_step_index": self.step_index,
            "current_step_name": step_id,
            "step_status": status,
            "step_started_at": row::optional_time("step", self.started_at)?,
            "step_percent": self.percent,
            "attempt_number": self.attempt_number,
        });
        Ok(with(with(held.subject.payload(), facts), fields))
    }
}

/// What the event of a finished step says beyond that.
#[must_use]
pub fn finished(result: &StepOutcome, duration_ms: u64) -> Value {
    let more = match result {
        StepOutcome::Succeeded { changed, .. } => json!({ "changed": changed }),
        StepOutcome::Failed { failure } => json!({ "failure": failure }),
        StepOutcome::Skipped { because_of } => json!({ "because_of": because_of }),
        StepOutcome::Canceled => json!({}),
    };
    with(json!({ "duration_ms": duration_ms }), more)
}

/// The code of the failure, when it failed.
#[must_use]
pub fn error_code(result: &StepOutcome) -> Option<String> {
    match result {
        StepOutcome::Failed { failure } => Some(failure.code.clone()),
        StepOutcome::Succeeded { .. } | StepOutcome::Skipped { .. } | StepOutcome::Canceled => None,
    }
}

/// The task has no such step.
#[must_use]
pub fn unknown_step(task_id: TaskId, step_id: &StepId) -> StoreError {
    StoreError::not_found("step", format!("{step_id}` in task `{task_id}"))
}

/// The host's clock, unless it says nonsense.
#[must_use]
pub fn host_time(milliseconds: i64, context: &Context) -> i64 {
    Timestamp::from_millisecond(milliseconds).map_or_else(|_| context.at.as_millisecond(), |_| milliseconds)
}
