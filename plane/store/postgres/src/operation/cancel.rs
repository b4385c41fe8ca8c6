//! Canceling an operation.

use fettle_model::{name::Label, operation::OperationStatus};
use fettle_store::{StoreError, change::Change, context::Context, id::OperationId, operation::Operation};
use fettle_store_rows::{
    operation::{OperationRow, is_over},
    subject::Subject,
};

use super::{ending, operations};
use crate::{
    audit,
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
    let tasks = lock_tasks(unit, id).await?;
    let known = find(unit, project, id).await?;
    match known.state.status() {
        OperationStatus::Canceled => return Ok(known),
        OperationStatus::Succeeded | OperationStatus::Failed => return Err(is_over(&known)),
        OperationStatus::Queued | OperationStatus::Running if known.cancel_requested_at.is_some() => return Ok(known),
        OperationStatus::Queued | OperationStatus::Running => {}
    }
    unit.execute(
        "WITH asked AS (
             UPDATE tasks SET cancel_requested = 1 WHERE operation_id = $1 AND status = 'leased'
         )
         UPDATE operations SET cancel_requested_at = $2 WHERE operation_id = $1",
        |query| query.bind(id.to_string()).bind(context.at.as_millisecond()),
    )
    .await?;
    let subject = subject(unit, &id.to_string()).await?;
    end_ready(unit, &subject, &tasks, context).await?;
    if tasks.iter().any(|(_, status)| status == "leased") {
        unit.announce(Change::CancelRequested(subject.node_id()?));
    }
    audit::record(unit, context, &subject.scope(), "operation.cancel", &subject.resource_name());
    unit.announce(subject.change()?);
    find(unit, project, id).await
}

async fn end_ready(
    unit: &mut Unit,
    subject: &Subject,
    tasks: &[(String, String)],
    context: &Context,
) -> Result<(), StoreError> {
    for (task_id, _) in tasks.iter().filter(|(_, status)| status == "ready") {
        ending::end_task(unit, subject, task_id, &ending::TaskEnding::Canceled, context).await?;
    }
    Ok(())
}

async fn lock_tasks(unit: &mut Unit, id: OperationId) -> Result<Vec<(String, String)>, StoreError> {
    let lock = "SELECT task_id, status FROM tasks WHERE operation_id = $1 ORDER BY task_id FOR NO KEY UPDATE";
    unit.look(lock, |query: Asking<(String, String)>| query.bind(id.to_string())).await
}

async fn find(unit: &mut Unit, project: &Label, id: OperationId) -> Result<Operation, StoreError> {
    let sql = operations!("WHERE operation_id = $1 AND project_id = $2 FOR NO KEY UPDATE");
    let bind = |query: Asking<OperationRow>| query.bind(id.to_string()).bind(project.to_string());
    unit.look_for(sql, bind).await?.ok_or_else(|| StoreError::not_found("operation", id))?.operation()
}
