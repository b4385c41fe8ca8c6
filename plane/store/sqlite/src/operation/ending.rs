//! The end of a task, and with its last task, of an operation.

use fettle_model::operation::StepOutcome;
use fettle_store::{StoreError, change::Change, context::Context, event::EventKind};
pub(crate) use fettle_store_rows::task::TaskEnding;
use serde_json::json;

use crate::{
    error::unavailable,
    event,
    operation::subject::{Subject, with},
    row,
    writer::Unit,
};

const VERB: &str = "finish_task";

/// Ends a task that is not over, settles the steps that have no result, and ends the operation when
/// this was its last task.
pub(crate) async fn end_task(
    unit: &mut Unit,
    subject: &Subject,
    task_id: &str,
    ending: &TaskEnding,
    context: &Context,
) -> Result<(), StoreError> {
    sqlx::query("UPDATE tasks SET status = $2, deadline = NULL WHERE task_id = $1")
        .bind(task_id)
        .bind(ending.status())
        .execute(&mut unit.connection)
        .await
        .map_err(unavailable(VERB))?;
    settle_steps(unit, task_id, ending, context).await?;
    end_operation(unit, subject, ending, context).await?;
    unit.announce(Change::Lease);
    unit.announce(subject.change()?);
    Ok(())
}

/// Steps without a result get the one that follows from the task's end.
async fn settle_steps(
    unit: &mut Unit,
    task_id: &str,
    ending: &TaskEnding,
    context: &Context,
) -> Result<(), StoreError> {
    match ending {
        TaskEnding::Succeeded => Ok(()),
        TaskEnding::Canceled => settle(unit, task_id, None, &StepOutcome::Canceled, context).await,
        TaskEnding::Failed { failure, step_id } => {
            if let Some(step_id) = step_id {
                let failed = StepOutcome::Failed { failure: failure.clone() };
                settle(unit, task_id, Some(step_id), &failed, context).await?;
            }
            let because_of = step_id.clone().unwrap_or_default();
            settle(unit, task_id, None, &StepOutcome::Skipped { because_of }, context).await
        }
    }
}

async fn settle(
    unit: &mut Unit,
    task_id: &str,
    step_id: Option<&str>,
    outcome: &StepOutcome,
    context: &Context,
) -> Result<(), StoreError> {
    // A step that runs was started: it is canceled, never skipped.
    let running = if matches!(outcome, StepOutcome::Skipped { .. }) { &StepOutcome::Canceled } else { outcome };
    for (status, outcome) in [("pending", outcome), ("running", running)] {
        sqlx::query(
            "UPDATE operation_steps SET status = $4, outcome = $5, finished_at = $6
             WHERE task_id = $1 AND ($2 IS NULL OR step_id = $2) AND status = $3",
        )
        .bind(task_id)
        .bind(step_id)
        .bind(status)
        .bind(outcome.status().name())
        .bind(row::text("outcome", outcome)?)
        .bind(context.at.as_millisecond())
        .execute(&mut unit.connection)
        .await
        .map_err(unavailable(VERB))?;
    }
    Ok(())
}

async fn end_operation(
    unit: &mut Unit,
    subject: &Subject,
    ending: &TaskEnding,
    context: &Context,
) -> Result<(), StoreError> {
    let statuses: Vec<(String,)> = sqlx::query_as("SELECT status FROM tasks WHERE operation_id = $1")
        .bind(&subject.operation_id)
        .fetch_all(&mut unit.connection)
        .await
        .map_err(unavailable(VERB))?;
    let any = |wanted: &str| statuses.iter().any(|(status,)| status == wanted);
    let failure = if let TaskEnding::Failed { failure, .. } = ending { Some(failure) } else { None };
    if let Some(failure) = failure {
        sqlx::query("UPDATE operations SET failure = coalesce(failure, $2) WHERE operation_id = $1")
            .bind(&subject.operation_id)
            .bind(row::text("failure", failure)?)
            .execute(&mut unit.connection)
            .await
            .map_err(unavailable(VERB))?;
    }
    if any("ready") || any("leased") {
        return Ok(());
    }
    let (status, kind) = if any("failed") {
        ("failed", EventKind::Failed)
    } else if any("canceled") {
        ("canceled", EventKind::Canceled)
    } else {
        ("succeeded", EventKind::Completed)
    };
    sqlx::query("UPDATE operations SET status = $2, finished_at = $3 WHERE operation_id = $1")
        .bind(&subject.operation_id)
        .bind(status)
        .bind(context.at.as_millisecond())
        .execute(&mut unit.connection)
        .await
        .map_err(unavailable(VERB))?;
    let failed_step = if let TaskEnding::Failed { step_id, .. } = ending { step_id.clone() } else { None };
    let fields = json!({ "status": status, "failure": failure, "failed_step": failed_step });
    event::append(unit, &subject.operation_id, kind, context.at, &with(subject.payload(), fields)).await
}
