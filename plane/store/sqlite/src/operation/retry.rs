//! Another run of an operation.

use std::collections::BTreeSet;

use fettle_model::name::{Label, StepId};
use fettle_store::{
    StoreError,
    change::Change,
    context::Context,
    event::EventKind,
    id::{NodeId, OperationId},
    operation::{NewRun, Operation},
};
use fettle_store_rows::{
    retry::{OldTask, changed, choose, refuse_what_is_not_over},
    settlement::refuse_in_question,
};
use jiff::Timestamp;

use crate::{
    audit,
    definition::insist_on_usable,
    error::unavailable,
    operation::{inquiry::outcomes, read, subject},
    row,
    writer::Unit,
};

const VERB: &str = "retry_operation";

pub(crate) async fn retry(
    unit: &mut Unit,
    project: &Label,
    id: OperationId,
    run: &NewRun,
    context: &Context,
) -> Result<Operation, StoreError> {
    let known = find(unit, project, id).await?;
    refuse_what_is_not_over(&known)?;
    insist_on_usable(unit, &known.operation_type, &known.version).await?;
    let old = replaceable(unit, id, run.nodes.as_ref()).await?;
    if !run.accept_unknown {
        refuse_unknown_outcomes(unit, &old).await?;
    }
    if old.len() > run.task_ids.len() {
        return Err(changed(id));
    }
    begin(unit, id, run).await?;
    for (old, new) in old.iter().zip(&run.task_ids) {
        replace(unit, old, &new.to_string(), &run.not_reusable).await?;
        unit.announce(Change::TaskReady(row::parse("node", &old.node_id)?));
    }
    forget_failure(unit, id).await?;
    let subject = subject::read(unit, &id.to_string()).await?;
    unit.journal.event(&subject.operation_id, EventKind::Requested, context.at, &subject.payload())?;
    audit::record(unit, context, &subject.scope(), "operation.retry", &subject.resource_name());
    unit.announce(Change::Deadline);
    unit.announce(subject.change()?);
    find(unit, project, id).await
}

pub(super) async fn find(unit: &mut Unit, project: &Label, id: OperationId) -> Result<Operation, StoreError> {
    read::by_id(&mut unit.connection, project, id).await?.ok_or_else(|| StoreError::not_found("operation", id))
}

/// The tasks that did not succeed, on the nodes that are meant.
pub(super) async fn replaceable(
    unit: &mut Unit,
    id: OperationId,
    nodes: Option<&BTreeSet<NodeId>>,
) -> Result<Vec<OldTask>, StoreError> {
    let old: Vec<OldTask> = sqlx::query_as(
        "SELECT task_id, node_id, status FROM tasks
         WHERE operation_id = $1 AND superseded = 0 AND status IN ('failed', 'canceled', 'skipped') ORDER BY task_id",
    )
    .bind(id.to_string())
    .fetch_all(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    choose(old, id, nodes)
}

/// A step of which nobody knows whether it happened is for a person to decide.
async fn refuse_unknown_outcomes(unit: &mut Unit, old: &[OldTask]) -> Result<(), StoreError> {
    for task in old {
        refuse_in_question(&outcomes(unit, &task.task_id).await?)?;
    }
    Ok(())
}

async fn begin(unit: &mut Unit, id: OperationId, run: &NewRun) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE operations SET run = run + 1, status = 'queued', started_at = NULL, finished_at = NULL,
             dispatched_at = NULL, cancel_requested_at = NULL, deadline = $2, deadline_passed = 0
         WHERE operation_id = $1",
    )
    .bind(id.to_string())
    .bind(run.deadline.map(Timestamp::as_millisecond))
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    Ok(())
}

/// Unless a node that is not retried has failed.
pub(super) async fn forget_failure(unit: &mut Unit, id: OperationId) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE operations SET failure = NULL WHERE operation_id = $1 AND NOT EXISTS
             (SELECT 1 FROM tasks WHERE tasks.operation_id = $1 AND superseded = 0 AND tasks.status = 'failed')",
    )
    .bind(id.to_string())
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    Ok(())
}

/// A new task takes over what succeeded. The old one stays as it ended.
async fn replace(unit: &mut Unit, old: &OldTask, new: &str, not_reusable: &BTreeSet<StepId>) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO tasks (task_id, operation_id, node_id, status, org_id, priority, run)
         SELECT $2, operation_id, node_id, 'ready', tasks.org_id, tasks.priority, operations.run
         FROM tasks JOIN operations USING (operation_id) WHERE task_id = $1;
         INSERT INTO operation_steps (task_id, operation_id, step_index, step_id, kind, component, needs, status,
             attempt_number, attempts_before, started_at, percent, message, last_log, log_lines, outcome,
             duration_ms, finished_at, settlement)
         SELECT $2, operation_id, step_index, step_id, kind, component, needs, status,
             attempt_number, attempt_number, started_at, percent, message, last_log, log_lines, outcome,
             duration_ms, finished_at, settlement
         FROM operation_steps WHERE task_id = $1;
         UPDATE operation_steps SET status = 'pending', started_at = NULL, percent = NULL, message = NULL,
             last_log = NULL, outcome = NULL, duration_ms = NULL, finished_at = NULL, settlement = NULL
         WHERE task_id = $2
             AND (status <> 'succeeded' OR step_id IN (SELECT value FROM json_each($3)));
         UPDATE tasks SET superseded = 1 WHERE task_id = $1",
    )
    .bind(&old.task_id)
    .bind(new)
    .bind(row::text("steps", not_reusable)?)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    Ok(())
}
