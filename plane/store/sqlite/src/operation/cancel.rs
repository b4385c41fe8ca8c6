//! Canceling an operation.

use fettle_model::{name::Label, operation::OperationStatus};
use fettle_store::{StoreError, change::Change, context::Context, id::OperationId, operation::Operation};
use fettle_store_rows::operation::is_over;

use crate::{
    audit,
    error::unavailable,
    operation::{ending, read, subject},
    writer::Unit,
};

const VERB: &str = "cancel_operation";

pub(crate) async fn cancel(
    unit: &mut Unit,
    project: &Label,
    id: OperationId,
    context: &Context,
) -> Result<Operation, StoreError> {
    let known = find(unit, project, id).await?;
    match known.state.status() {
        OperationStatus::Canceled => return Ok(known),
        OperationStatus::Succeeded | OperationStatus::Failed => return Err(is_over(&known)),
        OperationStatus::Queued | OperationStatus::Running if known.cancel_requested_at.is_some() => return Ok(known),
        OperationStatus::Queued | OperationStatus::Running => {}
    }
    sqlx::query("UPDATE operations SET cancel_requested_at = $2 WHERE operation_id = $1")
        .bind(id.to_string())
        .bind(context.at.as_millisecond())
        .execute(&mut unit.connection)
        .await
        .map_err(unavailable(VERB))?;
    let subject = subject::read(unit, &id.to_string()).await?;
    for (task_id,) in open_tasks(unit, id, "ready").await? {
        ending::end_task(unit, &subject, &task_id, &ending::TaskEnding::Canceled, context).await?;
    }
    if !open_tasks(unit, id, "leased").await?.is_empty() {
        sqlx::query("UPDATE tasks SET cancel_requested = 1 WHERE operation_id = $1 AND status = 'leased'")
            .bind(id.to_string())
            .execute(&mut unit.connection)
            .await
            .map_err(unavailable(VERB))?;
        unit.announce(Change::CancelRequested(subject.node_id()?));
    }
    audit::record(unit, context, &subject.scope(), "operation.cancel", &subject.resource_name()).await?;
    unit.announce(subject.change()?);
    find(unit, project, id).await
}

async fn find(unit: &mut Unit, project: &Label, id: OperationId) -> Result<Operation, StoreError> {
    read::by_id(&mut unit.connection, project, id).await?.ok_or_else(|| StoreError::not_found("operation", id))
}

async fn open_tasks(unit: &mut Unit, id: OperationId, status: &str) -> Result<Vec<(String,)>, StoreError> {
    sqlx::query_as("SELECT task_id FROM tasks WHERE operation_id = $1 AND status = $2")
        .bind(id.to_string())
        .bind(status)
        .fetch_all(&mut unit.connection)
        .await
        .map_err(unavailable(VERB))
}
