//! Canceling an operation.

use fettle_model::{name::Label, operation::OperationStatus};
use fettle_store::{StoreError, change::Change, context::Context, id::OperationId, operation::Operation};
use fettle_store_rows::{
    operation::{OperationRow, is_over},
    subject::Subject,
};

use sqlx_macros::FromRow;

use super::{ending, operations};
use crate::{
    audit, row,
    task::subject,
    unit::{Asking, Unit},
};

pub(crate) async fn cancel(
    unit: &mut Unit,
    project: &Label,
    id: OperationId,
    context: &Context,
) -> Result<Operation, StoreError> {
    // Tasks before their operation, as everywhere: whoever locks in another order waits for ever.
    let tasks = lock_tasks(unit, &id.to_string()).await?;
    let known = find(unit, project, id).await?;
    match known.state.status() {
        OperationStatus::Canceled => return Ok(known),
        OperationStatus::Succeeded | OperationStatus::Failed => return Err(is_over(&known)),
        OperationStatus::Queued | OperationStatus::Running if known.cancel_requested_at.is_some() => return Ok(known),
        OperationStatus::Queued | OperationStatus::Running => {}
    }
    unit.execute("UPDATE operations SET cancel_requested_at = $2 WHERE operation_id = $1", |query| {
        query.bind(id.to_string()).bind(context.at.as_millisecond())
    })
    .await?;
    let subject = subject(unit, &id.to_string()).await?;
    stop_tasks(unit, &subject, &tasks, &ending::TaskEnding::Canceled, context).await?;
    audit::record(unit, context, &subject.scope(), "operation.cancel", &subject.resource_name());
    unit.announce(subject.change()?);
    find(unit, project, id).await
}

/// Asks the nodes of tasks that run to stop, and ends the tasks that no node has taken. The tasks are locked.
pub(crate) async fn stop_tasks(
    unit: &mut Unit,
    subject: &Subject,
    tasks: &[LockedTask],
    ending: &ending::TaskEnding,
    context: &Context,
) -> Result<(), StoreError> {
    unit.execute("UPDATE tasks SET cancel_requested = 1 WHERE operation_id = $1 AND status = 'leased'", |query| {
        query.bind(subject.operation_id.clone())
    })
    .await?;
    for task in tasks.iter().filter(|task| task.status == "leased") {
        unit.announce(Change::CancelRequested(row::parse("node", &task.node_id)?));
    }
    let ready = tasks.iter().filter(|task| task.status == "ready");
    let ended = ready.map(|task| ending::Ended {
        subject: subject.clone(),
        task_id: task.task_id.clone(),
        ending: ending.clone(),
        context,
    });
    ending::end_tasks(unit, &ended.collect::<Vec<_>>()).await
}

/// A task that waits here for nobody else until the commit.
#[derive(FromRow)]
pub(crate) struct LockedTask {
    task_id: String,
    node_id: String,
    status: String,
}

/// Locks the tasks of an operation, in one order.
pub(crate) async fn lock_tasks(unit: &mut Unit, operation_id: &str) -> Result<Vec<LockedTask>, StoreError> {
    let lock = "SELECT task_id, node_id, status FROM tasks WHERE operation_id = $1 ORDER BY task_id FOR NO KEY UPDATE";
    unit.look(lock, |query: Asking<LockedTask>| query.bind(operation_id.to_owned())).await
}

pub(crate) async fn find(unit: &mut Unit, project: &Label, id: OperationId) -> Result<Operation, StoreError> {
    let sql = operations!("WHERE operation_id = $1 AND project_id = $2 FOR NO KEY UPDATE");
    let bind = |query: Asking<OperationRow>| query.bind(id.to_string()).bind(project.to_string());
    unit.look_for(sql, bind).await?.ok_or_else(|| StoreError::not_found("operation", id))?.operation()
}
