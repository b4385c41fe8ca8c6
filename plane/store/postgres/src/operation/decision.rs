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
    cancel::{find, lock_tasks},
    ending::{self, TaskEnding},
    inquiry::outcomes,
    retry::{self, forget_failure, replaceable},
};
use crate::{
    audit, row,
    task::subject,
    unit::{Asking, Unit},
};

pub(crate) async fn decide(
    unit: &mut Unit,
    (project, id): (&Label, OperationId),
    decision: &Decision,
    run: Option<&NewRun>,
    context: &Context,
) -> Result<Operation, StoreError> {
    // Tasks before their operation, as everywhere.
    lock_tasks(unit, &id.to_string()).await?;
    let known = find(unit, project, id).await?;
    refuse_what_is_certain(&known)?;
    let old = replaceable(unit, id).await?;
    let steps = outcomes(unit, &old).await?;
    let step = decided(&steps, decision)?;
    let (outcome, settlement) = judged(decision, context);
    write(unit, step, &outcome, &settlement, context).await?;
    let subject = subject(unit, &id.to_string()).await?;
    let payload = decision_payload(&subject, step, &outcome, &settlement);
    unit.journal.event(&subject.operation_id, EventKind::Progress, context.at, &payload)?;
    let details = decision_details(decision, step, run.is_some());
    audit::record_with(unit, context, &subject.scope(), "operation.recover", &subject.resource_name(), details);
    unit.announce(subject.change()?);
    if is_done(unit, &step.task_id).await? {
        let sql = "UPDATE tasks SET status = 'succeeded' WHERE task_id = $1";
        unit.execute(sql, |query| query.bind(step.task_id.clone())).await?;
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
    let (told, found) = (row::text("outcome", outcome)?, row::text("settlement", settlement)?);
    unit.execute(
        "UPDATE operation_steps SET status = $3, outcome = $4, settlement = $5, finished_at = $6
         WHERE task_id = $1 AND step_id = $2",
        |query| {
            query
                .bind(step.task_id.clone())
                .bind(step.step_id.clone())
                .bind(outcome.status().name())
                .bind(told)
                .bind(found)
                .bind(context.at.as_millisecond())
        },
    )
    .await?;
    Ok(())
}

/// Whether every step of a task has succeeded.
async fn is_done(unit: &mut Unit, task_id: &str) -> Result<bool, StoreError> {
    let sql = "SELECT step_id FROM operation_steps WHERE task_id = $1 AND status <> 'succeeded' LIMIT 1";
    Ok(unit.look_for(sql, |query: Asking<(String,)>| query.bind(task_id.to_owned())).await?.is_none())
}

/// The operation no longer fails because nobody knew.
async fn replace_failure(unit: &mut Unit, id: OperationId, failure: Option<Failure>) -> Result<(), StoreError> {
    let Some(failure) = failure else { return Ok(()) };
    let document = row::text("failure", &failure)?;
    unit.execute("UPDATE operations SET failure = $2 WHERE operation_id = $1", |query| {
        query.bind(id.to_string()).bind(document)
    })
    .await?;
    Ok(())
}
