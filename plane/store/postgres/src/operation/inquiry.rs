//! Asking nodes what is true of steps of which nobody knows whether they happened.

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
    retry::{OldTask, changed, choose},
    settlement::{Inquiry, OutcomeRow, asked, nothing_in_question, refuse_what_is_certain},
    subject::with,
};
use serde_json::json;

use super::{
    cancel::{find, lock_tasks},
    retry::{forget_failure, replaceable},
};
use crate::{
    audit, row,
    task::subject,
    unit::{Asking, Unit},
};

pub(crate) async fn inquire(
    unit: &mut Unit,
    project: &Label,
    id: OperationId,
    asking: &NewInquiry,
    context: &Context,
) -> Result<Operation, StoreError> {
    // Tasks before their operation, as everywhere.
    lock_tasks(unit, &id.to_string()).await?;
    let known = find(unit, project, id).await?;
    refuse_what_is_certain(&known)?;
    let old = choose(replaceable(unit, id).await?, id, asking.nodes.as_ref())?;
    let open = in_question(unit, old).await?;
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
    let subject = subject(unit, &id.to_string()).await?;
    let payload = with(subject.payload(), json!({ "inquiry": true }));
    unit.journal.event(&subject.operation_id, EventKind::Requested, context.at, &payload)?;
    audit::record(unit, context, &subject.scope(), "operation.force_probe", &subject.resource_name());
    unit.announce(Change::Deadline);
    unit.announce(subject.change()?);
    find(unit, project, id).await
}

/// The tasks that have a step in question, and which.
async fn in_question(unit: &mut Unit, old: Vec<OldTask>) -> Result<Vec<(OldTask, Inquiry)>, StoreError> {
    let steps = outcomes(unit, &old).await?;
    let mut open = Vec::new();
    for task in old {
        let mut inquiry = Inquiry { canceled: task.status == "canceled", ..Inquiry::default() };
        for step in steps.iter().filter(|step| step.task_id == task.task_id) {
            if step.is_in_question()? {
                inquiry.steps.insert(row::parse("step", &step.step_id)?);
            }
        }
        if !inquiry.steps.is_empty() {
            open.push((task, inquiry));
        }
    }
    Ok(open)
}

/// The steps of tasks, with how they ended.
pub(super) async fn outcomes(unit: &mut Unit, tasks: &[OldTask]) -> Result<Vec<OutcomeRow>, StoreError> {
    let ids: Vec<String> = tasks.iter().map(|task| task.task_id.clone()).collect();
    let sql = "SELECT task_id, tasks.node_id AS node_id, step_id, operation_steps.status AS status, outcome, settlement
               FROM tasks JOIN operation_steps USING (task_id) WHERE task_id = ANY($1)
               ORDER BY task_id, step_index";
    unit.look(sql, |query: Asking<OutcomeRow>| query.bind(ids)).await
}

/// There is no deadline, for what is asked is bounded by itself.
async fn begin(unit: &mut Unit, id: OperationId) -> Result<(), StoreError> {
    unit.execute(
        "UPDATE operations SET run = run + 1, status = 'queued', started_at = NULL, finished_at = NULL,
             dispatched_at = NULL, cancel_requested_at = NULL, deadline = NULL, deadline_passed = FALSE
         WHERE operation_id = $1",
        |query| query.bind(id.to_string()),
    )
    .await?;
    Ok(())
}

/// A new task with every step as it was, and those in question open.
const REPLACE: &str = "
WITH superseded AS (
    UPDATE tasks SET superseded = 1 WHERE task_id = $1
), task AS (
    INSERT INTO tasks (task_id, operation_id, node_id, status, org_id, priority, run, inquiry)
    SELECT $2, operation_id, node_id, 'ready', tasks.org_id, tasks.priority, operations.run, $4
    FROM tasks JOIN operations USING (operation_id) WHERE task_id = $1
)
INSERT INTO operation_steps (task_id, operation_id, step_index, step_id, kind, component, needs, status,
    attempt_number, attempts_before, log_lines, started_at, percent, message, last_log, outcome, duration_ms,
    finished_at, settlement)
SELECT $2, operation_id, step_index, step_id, kind, component, needs,
    CASE WHEN is_open THEN 'pending' ELSE status END, attempt_number, attempt_number, log_lines, started_at, percent,
    message, last_log, CASE WHEN is_open THEN NULL ELSE outcome END, duration_ms,
    CASE WHEN is_open THEN NULL ELSE finished_at END, CASE WHEN is_open THEN $5 ELSE settlement END
FROM operation_steps CROSS JOIN LATERAL (SELECT step_id = ANY($3) AS is_open) AS opened
WHERE task_id = $1";

async fn replace(unit: &mut Unit, old: &str, new: &str, inquiry: &Inquiry) -> Result<(), StoreError> {
    let steps: Vec<String> = inquiry.steps.iter().map(ToString::to_string).collect();
    let (document, settlement) = (row::text("inquiry", inquiry)?, row::text("settlement", &asked())?);
    unit.execute(REPLACE, |query| {
        query.bind(old.to_owned()).bind(new.to_owned()).bind(steps).bind(document).bind(settlement)
    })
    .await?;
    Ok(())
}
