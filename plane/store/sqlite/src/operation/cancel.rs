//! Canceling an operation.

use fettle_model::{name::Label, operation::OperationStatus};
use fettle_store::{StoreError, change::Change, context::Context, id::OperationId, operation::Operation};
use fettle_store_rows::operation::is_over;

use crate::{
    audit,
    error::unavailable,
    operation::{
        ending, read,
        subject::{self, Subject},
    },
    row,
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
    stop_tasks(unit, &subject, &ending::TaskEnding::Canceled, context).await?;
    audit::record(unit, context, &subject.scope(), "operation.cancel", &subject.resource_name());
    unit.announce(subject.change()?);
    find(unit, project, id).await
}

async fn find(unit: &mut Unit, project: &Label, id: OperationId) -> Result<Operation, StoreError> {
    read::by_id(&mut unit.connection, project, id).await?.ok_or_else(|| StoreError::not_found("operation", id))
}

/// Ends the tasks that no node has taken, and asks the nodes of the others to stop.
pub(crate) async fn stop_tasks(
    unit: &mut Unit,
    subject: &Subject,
    ending: &ending::TaskEnding,
    context: &Context,
) -> Result<(), StoreError> {
    let asked: Vec<(String,)> = sqlx::query_as(
        "UPDATE tasks SET cancel_requested = 1 WHERE operation_id = $1 AND status = 'leased' RETURNING node_id",
    )
    .bind(&subject.operation_id)
    .fetch_all(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    for (node_id,) in asked {
        unit.announce(Change::CancelRequested(row::parse("node", &node_id)?));
    }
    let ready: Vec<(String,)> =
        sqlx::query_as("SELECT task_id FROM tasks WHERE operation_id = $1 AND status = 'ready' ORDER BY task_id")
            .bind(&subject.operation_id)
            .fetch_all(&mut unit.connection)
            .await
            .map_err(unavailable(VERB))?;
    let ended = |(task_id,)| ending::Ended { subject: subject.clone(), task_id, ending: ending.clone(), context };
    ending::end_tasks(unit, &ready.into_iter().map(ended).collect::<Vec<_>>()).await
}
