//! The end of a task, and with its last task, of an operation.

use fettle_model::{failure::Failure, operation::StepOutcome};
use fettle_store::{StoreError, change::Change, context::Context, event::EventKind};
use fettle_store_rows::subject::{Subject, with};
pub(crate) use fettle_store_rows::task::TaskEnding;
use serde_json::json;

use crate::{
    row,
    unit::{Asking, Unit},
};

/// Ends a task that is not over, settles the steps that have no result, and ends the operation when this was its
/// last task. The task is locked.
pub(crate) async fn end_task(
    unit: &mut Unit,
    subject: &Subject,
    task_id: &str,
    ending: &TaskEnding,
    context: &Context,
) -> Result<(), StoreError> {
    // Two tasks of one operation may end at two planes: each waits here for the other.
    unit.execute("SELECT 1 FROM operations WHERE operation_id = $1 FOR NO KEY UPDATE", |query| {
        query.bind(subject.operation_id.clone())
    })
    .await?;
    settle_steps(unit, task_id, ending, context).await?;
    end_operation(unit, subject, task_id, ending, context).await?;
    unit.announce(Change::Lease);
    unit.announce(subject.change()?);
    Ok(())
}

/// Steps without a result get the one that follows from the task's end. A step that runs was started: it is
/// canceled, never skipped.
const SETTLE: &str = "
UPDATE operation_steps SET
    status = CASE WHEN step_id = $2 THEN 'failed' WHEN status = 'running' THEN 'canceled' ELSE $4 END,
    outcome = CASE WHEN step_id = $2 THEN $3 WHEN status = 'running' THEN $6 ELSE $5 END,
    finished_at = $7
WHERE task_id = $1 AND status IN ('pending', 'running')";

async fn settle_steps(
    unit: &mut Unit,
    task_id: &str,
    ending: &TaskEnding,
    context: &Context,
) -> Result<(), StoreError> {
    let (failed, step, rest) = match ending {
        TaskEnding::Succeeded => return Ok(()),
        TaskEnding::Canceled => (None, None, StepOutcome::Canceled),
        TaskEnding::Failed { failure, step_id } => (
            step_id.is_some().then(|| StepOutcome::Failed { failure: failure.clone() }),
            step_id.clone(),
            StepOutcome::Skipped { because_of: step_id.clone().unwrap_or_default() },
        ),
    };
    let failed = failed.map(|outcome| row::text("outcome", &outcome)).transpose()?;
    let canceled = row::text("outcome", &StepOutcome::Canceled)?;
    let (status, outcome) = (rest.status().name(), row::text("outcome", &rest)?);
    unit.execute(SETTLE, |query| {
        query
            .bind(task_id.to_owned())
            .bind(step)
            .bind(failed)
            .bind(status)
            .bind(outcome)
            .bind(canceled)
            .bind(context.at.as_millisecond())
    })
    .await?;
    Ok(())
}

/// Ends the task, and the operation when no other task is open. Answers the operation's status then: the worst
/// of its tasks'.
const END: &str = "
WITH task AS (
    UPDATE tasks SET status = $3, deadline = NULL WHERE task_id = $2
), others AS (
    SELECT status FROM tasks WHERE operation_id = $1 AND task_id <> $2
    UNION ALL
    SELECT $3
), ended AS (
    SELECT CASE
        WHEN bool_or(status IN ('ready', 'leased')) THEN NULL
        WHEN bool_or(status = 'failed') THEN 'failed'
        WHEN bool_or(status = 'canceled') THEN 'canceled'
        ELSE 'succeeded'
    END AS status FROM others
)
UPDATE operations SET
    failure = coalesce(failure, $4),
    status = coalesce(ended.status, operations.status),
    finished_at = CASE WHEN ended.status IS NULL THEN finished_at ELSE $5 END
FROM ended WHERE operation_id = $1
RETURNING ended.status";

async fn end_operation(
    unit: &mut Unit,
    subject: &Subject,
    task_id: &str,
    ending: &TaskEnding,
    context: &Context,
) -> Result<(), StoreError> {
    let failure: Option<&Failure> = if let TaskEnding::Failed { failure, .. } = ending { Some(failure) } else { None };
    let document = failure.map(|failure| row::text("failure", failure)).transpose()?;
    let ended = unit
        .change_one(END, |query: Asking<(Option<String>,)>| {
            query
                .bind(subject.operation_id.clone())
                .bind(task_id.to_owned())
                .bind(ending.status())
                .bind(document)
                .bind(context.at.as_millisecond())
        })
        .await?;
    let Some((Some(status),)) = ended else { return Ok(()) };
    let kind = match status.as_str() {
        "failed" => EventKind::Failed,
        "canceled" => EventKind::Canceled,
        _ => EventKind::Completed,
    };
    let failed_step = if let TaskEnding::Failed { step_id, .. } = ending { step_id.clone() } else { None };
    let fields = json!({ "status": status, "failure": failure, "failed_step": failed_step });
    unit.journal.event(&subject.operation_id, kind, context.at, &with(subject.payload(), fields))
}
