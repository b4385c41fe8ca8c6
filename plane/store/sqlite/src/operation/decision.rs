//! A person's word for a step of which nobody knows whether it happened.

use fettle_model::{failure::Failure, name::Label, operation::StepOutcome, settlement::Settlement};
use fettle_store::{
    StoreError,
    context::Context,
    event::EventKind,
    id::OperationId,
    operation::{Decision, Ending, NewRun, Operation, OperationState},
};
use fettle_store_rows::settlement::{
    OutcomeRow, decided, decision_details, decision_payload, failure_after, judged, refuse_what_is_certain,
};

use super::{
    ending::{self, TaskEnding},
    inquiry::outcomes,
    retry::{self, find, forget_failure, replaceable},
};
use crate::{audit, error::unavailable, operation::subject, row, writer::Unit};

const VERB: &str = "decide";

pub(crate) async fn decide(
    unit: &mut Unit,
    (project, id): (&Label, OperationId),
    decision: &Decision,
    run: Option<&NewRun>,
    context: &Context,
) -> Result<Operation, StoreError> {
    let known = find(unit, project, id).await?;
    refuse_what_is_certain(&known)?;
    let mut steps = Vec::new();
    for task in replaceable(unit, id, None).await? {
        steps.extend(outcomes(unit, &task.task_id).await?);
    }
    let step = decided(&steps, decision)?;
    let (outcome, settlement) = judged(decision, context);
    write(unit, step, &outcome, &settlement, context).await?;
    let subject = subject::read(unit, &id.to_string()).await?;
    let payload = decision_payload(&subject, step, &outcome, &settlement);
    unit.journal.event(&subject.operation_id, EventKind::Progress, context.at, &payload)?;
    let details = decision_details(decision, step, run.is_some());
    let (scope, name) = (subject.scope(), subject.resource_name());
    audit::record_with(unit, context, &scope, "operation.recover", &name, details);
    unit.announce(subject.change()?);
    if is_done(unit, &step.task_id).await? {
        set_task(unit, &step.task_id, "succeeded").await?;
        forget_failure(unit, id).await?;
        ending::end_task(unit, &subject, &step.task_id, &TaskEnding::Succeeded, context).await?;
    } else if let OperationState::Over { ending: Ending::Failed(failure), .. } = &known.state {
        replace_failure(unit, id, failure_after(Some(failure), &outcome)).await?;
    }
    let known = find(unit, project, id).await?;
    match run {
        Some(run) if refuse_what_is_certain(&known).is_ok() => retry::retry(unit, project, id, run, context).await,
        Some(_) | None => Ok(known),
    }
}

async fn write(
    unit: &mut Unit,
    step: &OutcomeRow,
    outcome: &StepOutcome,
    settlement: &Settlement,
    context: &Context,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE operation_steps SET status = $3, outcome = $4, settlement = $5, finished_at = $6
         WHERE task_id = $1 AND step_id = $2",
    )
    .bind(&step.task_id)
    .bind(&step.step_id)
    .bind(outcome.status().name())
    .bind(row::text("outcome", outcome)?)
    .bind(row::text("settlement", settlement)?)
    .bind(context.at.as_millisecond())
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    Ok(())
}

/// Whether every step of a task has succeeded.
async fn is_done(unit: &mut Unit, task_id: &str) -> Result<bool, StoreError> {
    let open: Option<(i64,)> =
        sqlx::query_as("SELECT 1 FROM operation_steps WHERE task_id = $1 AND status <> 'succeeded' LIMIT 1")
            .bind(task_id)
            .fetch_optional(&mut unit.connection)
            .await
            .map_err(unavailable(VERB))?;
    Ok(open.is_none())
}

async fn set_task(unit: &mut Unit, task_id: &str, status: &str) -> Result<(), StoreError> {
    sqlx::query("UPDATE tasks SET status = $2 WHERE task_id = $1")
        .bind(task_id)
        .bind(status)
        .execute(&mut unit.connection)
        .await
        .map_err(unavailable(VERB))?;
    Ok(())
}

/// The operation no longer fails because nobody knew.
async fn replace_failure(unit: &mut Unit, id: OperationId, failure: Option<Failure>) -> Result<(), StoreError> {
    let Some(failure) = failure else { return Ok(()) };
    sqlx::query("UPDATE operations SET failure = $2 WHERE operation_id = $1")
        .bind(id.to_string())
        .bind(row::text("failure", &failure)?)
        .execute(&mut unit.connection)
        .await
        .map_err(unavailable(VERB))?;
    Ok(())
}
