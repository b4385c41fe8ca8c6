//! Another run of an operation.

use fettle_model::name::Label;
use fettle_store::{
    StoreError,
    change::Change,
    context::Context,
    event::EventKind,
    id::OperationId,
    operation::{NewRun, Operation},
};
use fettle_store_rows::{
    definition::check_usable,
    retry::{OldTask, changed, choose, refuse_what_is_not_over},
    settlement::refuse_in_question,
};
use jiff::Timestamp;

use super::{
    cancel::{find, lock_tasks},
    inquiry::outcomes,
};
use crate::{
    audit, row,
    task::subject,
    unit::{Asking, Unit},
};

pub(crate) async fn retry(
    unit: &mut Unit,
    project: &Label,
    id: OperationId,
    run: &NewRun,
    context: &Context,
) -> Result<Operation, StoreError> {
    // Tasks before their operation, as everywhere.
    lock_tasks(unit, &id.to_string()).await?;
    let known = find(unit, project, id).await?;
    refuse_what_is_not_over(&known)?;
    insist_on_usable(unit, &known).await?;
    let old = choose(replaceable(unit, id).await?, id, run.nodes.as_ref())?;
    if !run.accept_unknown {
        refuse_in_question(&outcomes(unit, &old).await?)?;
    }
    if old.len() > run.task_ids.len() {
        return Err(changed(id));
    }
    begin(unit, id, run).await?;
    replace(unit, &old, run).await?;
    forget_failure(unit, id).await?;
    for task in &old {
        unit.announce(Change::TaskReady(row::parse("node", &task.node_id)?));
    }
    let subject = subject(unit, &id.to_string()).await?;
    unit.journal.event(&subject.operation_id, EventKind::Requested, context.at, &subject.payload())?;
    audit::record(unit, context, &subject.scope(), "operation.retry", &subject.resource_name());
    unit.announce(Change::Deadline);
    unit.announce(subject.change()?);
    find(unit, project, id).await
}

async fn insist_on_usable(unit: &mut Unit, known: &Operation) -> Result<(), StoreError> {
    let sql = "SELECT status FROM operation_definition_versions WHERE operation_type = $1 AND version = $2";
    let (operation_type, version) = (known.operation_type.to_string(), known.version.to_string());
    let found = unit.look_for(sql, |query: Asking<(String,)>| query.bind(operation_type).bind(version)).await?;
    check_usable(&known.operation_type, &known.version, found.as_ref().map(|(status,)| status.as_str()))
}

/// The tasks that did not succeed.
pub(super) async fn replaceable(unit: &mut Unit, id: OperationId) -> Result<Vec<OldTask>, StoreError> {
    let sql = "SELECT task_id, node_id, status FROM tasks
               WHERE operation_id = $1 AND superseded = 0 AND status IN ('failed', 'canceled', 'skipped')
               ORDER BY task_id";
    unit.look(sql, |query: Asking<OldTask>| query.bind(id.to_string())).await
}

async fn begin(unit: &mut Unit, id: OperationId, run: &NewRun) -> Result<(), StoreError> {
    let deadline = run.deadline.map(Timestamp::as_millisecond);
    unit.execute(
        "UPDATE operations SET run = run + 1, status = 'queued', started_at = NULL, finished_at = NULL,
             dispatched_at = NULL, cancel_requested_at = NULL, deadline = $2, deadline_passed = FALSE
         WHERE operation_id = $1",
        |query| query.bind(id.to_string()).bind(deadline),
    )
    .await?;
    Ok(())
}

/// New tasks take over what succeeded. The old ones stay as they ended.
const REPLACE: &str = "
WITH pair AS (
    SELECT * FROM unnest($1::text[], $2::text[]) AS pair (old_id, new_id)
), superseded AS (
    UPDATE tasks SET superseded = 1 FROM pair WHERE task_id = old_id
), task AS (
    INSERT INTO tasks (task_id, operation_id, node_id, status, org_id, priority, run)
    SELECT new_id, operation_id, node_id, 'ready', tasks.org_id, tasks.priority, operations.run
    FROM pair JOIN tasks ON task_id = old_id JOIN operations USING (operation_id)
)
INSERT INTO operation_steps (task_id, operation_id, step_index, step_id, kind, component, needs, status,
    attempt_number, attempts_before, log_lines, started_at, percent, message, last_log, outcome, duration_ms,
    finished_at, settlement)
SELECT new_id, operation_id, step_index, step_id, kind, component, needs,
    CASE WHEN keep THEN status ELSE 'pending' END, attempt_number, attempt_number, log_lines,
    CASE WHEN keep THEN started_at END, CASE WHEN keep THEN percent END, CASE WHEN keep THEN message END,
    CASE WHEN keep THEN last_log END, CASE WHEN keep THEN outcome END, CASE WHEN keep THEN duration_ms END,
    CASE WHEN keep THEN finished_at END, CASE WHEN keep THEN settlement END
FROM pair JOIN operation_steps ON task_id = old_id
    CROSS JOIN LATERAL (SELECT status = 'succeeded' AND step_id <> ALL($3) AS keep) AS kept";

async fn replace(unit: &mut Unit, old: &[OldTask], run: &NewRun) -> Result<(), StoreError> {
    let (old_ids, new_ids): (Vec<String>, Vec<String>) =
        old.iter().zip(&run.task_ids).map(|(old, new)| (old.task_id.clone(), new.to_string())).unzip();
    let not_reusable: Vec<String> = run.not_reusable.iter().map(ToString::to_string).collect();
    unit.execute(REPLACE, |query| query.bind(old_ids).bind(new_ids).bind(not_reusable)).await?;
    Ok(())
}

/// Unless a node that is not retried has failed.
pub(super) async fn forget_failure(unit: &mut Unit, id: OperationId) -> Result<(), StoreError> {
    unit.execute(
        "UPDATE operations SET failure = NULL WHERE operation_id = $1 AND NOT EXISTS
             (SELECT 1 FROM tasks WHERE tasks.operation_id = $1 AND superseded = 0 AND tasks.status = 'failed')",
        |query| query.bind(id.to_string()),
    )
    .await?;
    Ok(())
}
