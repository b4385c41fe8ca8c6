//! Rows of tasks: who holds them, and the fence around that.

use std::collections::BTreeMap;

use fettle_model::{
    failure::Failure,
    name::StepId,
    operation::StepOutcome,
    task::{Epoch, Task, TaskOutcome},
};
use fettle_store::{
    StoreError,
    fact::About,
    id::TaskId,
    task::{HeldTask, Lease, LeaseKey, Verdict},
};
use serde::Deserialize;
use serde_json::Value;
use sqlx_macros::FromRow;

use crate::{row, settlement::Inquiry, subject::Subject};

const WHAT: &str = "task";

/// Where a task is, and what it is a part of.
#[derive(Clone, Debug, FromRow, Deserialize)]
pub struct Held {
    /// The node it is for.
    #[sqlx(rename = "task_node_id")]
    pub node_id: String,
    /// Its status.
    #[sqlx(rename = "task_status")]
    pub status: String,
    /// The epoch of its newest lease.
    pub epoch: i64,
    /// Whether that lease arrived.
    pub acknowledged: i64,
    /// The number of the last event that was stored.
    pub last_sequence: i64,
    /// Whether it should stop.
    pub cancel_requested: i64,
    /// What it asks, where it does nothing else.
    pub inquiry: Option<String>,
    /// Its operation.
    #[sqlx(flatten)]
    pub subject: Subject,
}

/// How a lease key stands to its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// The lease is the task's current one.
    Current,
    /// The task ended under this lease.
    Ended,
    /// Anything else.
    Stale,
}

impl Held {
    /// How the task ends when its node says that it ended so.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn ending(&self, reported: TaskEnding) -> Result<TaskEnding, StoreError> {
        let inquiry: Option<Inquiry> = row::optional_document(WHAT, self.inquiry.as_deref())?;
        Ok(match inquiry {
            Some(inquiry) => inquiry.ending(reported),
            None => reported,
        })
    }

    /// The task as its holder may know it.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn task(&self) -> Result<HeldTask, StoreError> {
        Ok(HeldTask {
            operation_id: row::parse(WHAT, &self.subject.operation_id)?,
            project: self.subject.project()?,
            correlation_id: self.subject.correlation_id.clone(),
        })
    }

    /// Compares a key with the task.
    #[must_use]
    pub fn fence(&self, lease: &LeaseKey) -> Fence {
        let same_epoch = u64::try_from(self.epoch).is_ok_and(|epoch| epoch == lease.epoch.0);
        match self.status.as_str() {
            _ if self.node_id != lease.node_id.to_string() || !same_epoch => Fence::Stale,
            "leased" => Fence::Current,
            "ready" => Fence::Stale,
            _ => Fence::Ended,
        }
    }
}

/// How a task ends.
#[derive(Clone)]
pub enum TaskEnding {
    /// Every step succeeded.
    Succeeded,
    /// It failed for good.
    Failed {
        /// Why.
        failure: Failure,
        /// The step that failed.
        step_id: Option<String>,
    },
    /// It was canceled.
    Canceled,
    /// It is never started: too many other nodes have failed.
    Skipped,
}

impl TaskEnding {
    /// The ending that a node reports, and its action in the audit trail.
    #[must_use]
    pub fn reported(outcome: TaskOutcome) -> (Self, &'static str) {
        match outcome {
            TaskOutcome::Succeeded => (Self::Succeeded, "task.complete"),
            TaskOutcome::Canceled => (Self::Canceled, "task.cancel"),
            TaskOutcome::Failed { failure, step_id } => {
                (Self::Failed { failure, step_id: step_id.map(String::from) }, "task.fail")
            }
        }
    }

    /// The status of the task from then on.
    #[must_use]
    pub const fn status(&self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed { .. } => "failed",
            Self::Canceled => "canceled",
            Self::Skipped => "skipped",
        }
    }
}

/// A node says that it canceled what nobody asked it to.
#[must_use]
pub fn not_canceled(task_id: TaskId) -> StoreError {
    StoreError::conflict("task.not_canceled", format!("nobody asked to cancel task {task_id}; report how it ended"))
}

/// A node says that a task is complete, and a step of it has not succeeded.
#[must_use]
pub fn step_not_succeeded(task_id: TaskId, step_id: &str, status: &str) -> StoreError {
    StoreError::conflict(
        "task.step_not_succeeded",
        format!("task {task_id} cannot be complete: step `{step_id}` is {status}; report its result first"),
    )
}

/// What a node is answered at once that says how its task ended; nothing when the task ends so. `unfinished` is the first
/// step of the task that has not succeeded, and its status.
#[must_use]
pub fn refusal(
    held: &Held,
    (lease, outcome): (&LeaseKey, &TaskOutcome),
    ending: &TaskEnding,
    unfinished: Option<&(String, String)>,
) -> Option<Result<Verdict, StoreError>> {
    match (held.fence(lease), ending, unfinished) {
        // The answer to the first time was lost.
        (Fence::Ended, ..) if held.status == ending.status() => Some(Ok(Verdict::Accepted)),
        (Fence::Stale | Fence::Ended, ..) => Some(Ok(Verdict::Stale)),
        (Fence::Current, TaskEnding::Succeeded, Some((step_id, status))) => {
            Some(Err(step_not_succeeded(lease.task_id, step_id, status)))
        }
        (Fence::Current, TaskEnding::Canceled, _)
            if *outcome == TaskOutcome::Canceled && held.cancel_requested == 0 =>
        {
            Some(Err(not_canceled(lease.task_id)))
        }
        (Fence::Current, ..) => None,
    }
}

/// What of an operation goes with a lease.
#[derive(FromRow, Deserialize)]
pub struct LeasedRow {
    operation_id: String,
    operation_type: String,
    org_id: String,
    project_id: String,
    node_id: String,
    correlation_id: String,
    sources: String,
    inputs: String,
    plan_digest: String,
    epoch: i64,
    run: i64,
    trace_parent: Option<String>,
    inquiry: Option<String>,
}

impl LeasedRow {
    /// The scope of audit rows of it, and the correlation id.
    #[must_use]
    pub fn story(&self) -> (String, String) {
        (format!("{}/{}", self.org_id, self.project_id), self.correlation_id.clone())
    }

    /// What every line of a log says of the operation.
    #[must_use]
    pub fn about(&self) -> About {
        About {
            operation_id: self.operation_id.clone(),
            operation_type: self.operation_type.clone(),
            org_id: self.org_id.clone(),
            project_id: self.project_id.clone(),
            correlation_id: self.correlation_id.clone(),
            resource_name: format!("projects/{}/operations/{}", self.project_id, self.operation_id),
            trace_parent: self.trace_parent.clone(),
        }
    }

    /// Whether a step of it may have a result: nothing can be accepted before the first lease of the first run.
    #[must_use]
    pub const fn may_have_results(&self) -> bool {
        self.epoch > 1 || self.run > 1
    }

    /// The lease of a task.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn lease(self, task_id: &str, accepted: BTreeMap<StepId, Value>) -> Result<Lease, StoreError> {
        let inquiry: Option<Inquiry> = row::optional_document(WHAT, self.inquiry.as_deref())?;
        Ok(Lease {
            task_id: row::parse(WHAT, task_id)?,
            epoch: Epoch(row::number(WHAT, self.epoch)?),
            task: Task {
                task_id: task_id.to_owned(),
                operation_id: self.operation_id,
                project_id: self.project_id,
                node_id: self.node_id,
                correlation_id: self.correlation_id,
                sources: row::document(WHAT, &self.sources)?,
                inputs: row::document(WHAT, &self.inputs)?,
                plan_digest: row::parse(WHAT, &self.plan_digest)?,
                accepted,
                inquire: inquiry.unwrap_or_default().steps,
                org_id: Some(self.org_id),
                trace_parent: self.trace_parent,
            },
        })
    }
}

/// Outputs of the steps that are done, of pairs of step and outcome.
///
/// # Errors
/// When a column is malformed.
pub fn accepted(rows: Vec<(String, String)>) -> Result<BTreeMap<StepId, Value>, StoreError> {
    let mut outputs = BTreeMap::new();
    for (step_id, outcome) in rows {
        if let StepOutcome::Succeeded { output, .. } = row::document(WHAT, &outcome)? {
            outputs.insert(row::parse(WHAT, &step_id)?, output);
        }
    }
    Ok(outputs)
}
