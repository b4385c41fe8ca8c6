//! Asking nodes what is true of steps of which nobody knows whether they happened.

use std::collections::BTreeSet;

use fettle_model::name::Label;
use fettle_store::{
    StoreError,
    change::Change,
    context::Context,
    event::EventKind,
    id::OperationId,
    operation::{NewInquiry, Operation},
};
use fettle_store_rows::{
    retry::{changed, choose},
    settlement::{Inquiry, OutcomeRow, asked, nothing_in_question, refuse_what_is_certain},
    subject::with,
};
use serde_json::json;

use super::retry::{find, forget_failure, replaceable};
use crate::{audit, error::unavailable, operation::subject, row, writer::Unit};

const VERB: &str = "inquire";

pub(crate) async fn inquire(
    unit: &mut Unit,
    project: &Label,
    id: OperationId,
    asking: &NewInquiry,
    context: &Context,
) -> Result<Operation, StoreError> {
    let known = find(unit, project, id).await?;
    refuse_what_is_certain(&known)?;
    let old = choose(replaceable(unit, id, None).await?, id, asking.nodes.as_ref())?;
    let mut open = Vec::new();
    for task in old {
        let mut inquiry = Inquiry { canceled: task.status == "canceled", ..Inquiry::default() };
        for step in outcomes(unit, &task.task_id).await? {
            if step.is_in_question()? {
                inquiry.steps.insert(row::parse("step", &step.step_id)?);
            }
        }
        if !inquiry.steps.is_empty() {
            open.push((task, inquiry));
        }
    }
    if open.is_empty() {
        return Err(nothing_in_question(id));
    }
    if open.len() > asking.task_ids.len() {
        return Err(changed(id));
    }
    begin(unit, id).await?;
    for ((old, inquiry), new) in open.iter().zip(&asking.task_ids) {
        replace(unit, &old.task_id, &new.to_string(), inquiry).await?;
        unit.announce(Change::TaskReady(row::parse("node", &old.node_id)?));
    }
    forget_failure(unit, id).await?;
    let subject = subject::read(unit, &id.to_string()).await?;
    let payload = with(subject.payload(), json!({ "inquiry": true }));
    unit.journal.event(&subject.operation_id, EventKind::Requested, context.at, &payload)?;
    audit::record(unit, context, &subject.scope(), "operation.force_probe", &subject.resource_name());
    unit.announce(Change::Deadline);
    unit.announce(subject.change()?);
    find(unit, project, id).await
}

/// The steps of a task, with how they ended.
pub(super) async fn outcomes(unit: &mut Unit, task_id: &str) -> Result<Vec<OutcomeRow>, StoreError> {
    sqlx::query_as(
        "SELECT task_id, tasks.node_id AS node_id, step_id, operation_steps.status AS status, outcome, settlement
         FROM tasks JOIN operation_steps USING (task_id) WHERE task_id = $1 ORDER BY step_index",
    )
    .bind(task_id)
    .fetch_all(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))
}

/// There is no deadline, for what is asked is bounded by itself.
async fn begin(unit: &mut Unit, id: OperationId) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE operations SET run = run + 1, status = 'queued', started_at = NULL, finished_at = NULL,
             dispatched_at = NULL, cancel_requested_at = NULL, deadline = NULL, deadline_passed = 0
         WHERE operation_id = $1",
    )
    .bind(id.to_string())
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    Ok(())
}

/// A new task with every step as it was, and those in question open.
async fn replace(unit: &mut Unit, old: &str, new: &str, inquiry: &Inquiry) -> Result<(), StoreError> {
    let steps: &BTreeSet<_> = &inquiry.steps;
    sqlx::query(
        "INSERT INTO tasks (task_id, operation_id, node_id, status, org_id, priority, run, inquiry)
         SELECT $2, operation_id, node_id, 'ready', tasks.org_id, tasks.priority, operations.run, $4
         FROM tasks JOIN operations USING (operation_id) WHERE task_id = $1;
         INSERT INTO operation_steps (task_id, operation_id, step_index, step_id, kind, component, needs, status,
             attempt_number, attempts_before, started_at, percent, message, last_log, log_lines, outcome,
             duration_ms, finished_at, settlement)
         SELECT $2, operation_id, step_index, step_id, kind, component, needs, status,
             attempt_number, attempt_number, started_at, percent, message, last_log, log_lines, outcome,
             duration_ms, finished_at, settlement
         FROM operation_steps WHERE task_id = $1;
         UPDATE operation_steps SET status = 'pending', outcome = NULL, finished_at = NULL, settlement = $5
         WHERE task_id = $2 AND step_id IN (SELECT value FROM json_each($3));
         UPDATE tasks SET superseded = 1 WHERE task_id = $1",
    )
    .bind(old)
    .bind(new)
    .bind(row::text("steps", steps)?)
    .bind(row::text("inquiry", inquiry)?)
    .bind(row::text("settlement", &asked())?)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    Ok(())
}
