//! From rows to operations and steps.

use fettle_model::{name::Label, operation::OperationStatus};
use fettle_store::{
    StoreError,
    id::OperationId,
    operation::{Operation, Step},
    page::Page,
};
use fettle_store_rows::operation::{OperationRow, StepRow, before};
use sqlx::SqliteConnection;

use crate::error::unavailable;

/// One operation of a project.
pub(crate) async fn by_id(
    connection: &mut SqliteConnection,
    project: &Label,
    id: OperationId,
) -> Result<Option<Operation>, StoreError> {
    let found: Option<OperationRow> =
        sqlx::query_as("SELECT * FROM operations WHERE operation_id = $1 AND project_id = $2")
            .bind(id.to_string())
            .bind(project.as_str())
            .fetch_optional(connection)
            .await
            .map_err(unavailable("operation"))?;
    found.map(OperationRow::operation).transpose()
}

/// The operation that was requested with this key.
pub(crate) async fn by_key(
    connection: &mut SqliteConnection,
    project: &Label,
    key: &str,
) -> Result<Option<Operation>, StoreError> {
    let found: Option<OperationRow> =
        sqlx::query_as("SELECT * FROM operations WHERE project_id = $1 AND idempotency_key = $2")
            .bind(project.as_str())
            .bind(key)
            .fetch_optional(connection)
            .await
            .map_err(unavailable("operation_by_key"))?;
    found.map(OperationRow::operation).transpose()
}

/// Operations of a project, the newest first.
pub(crate) async fn list(
    connection: &mut SqliteConnection,
    project: &Label,
    status: Option<OperationStatus>,
    page: Page<OperationId>,
) -> Result<Vec<Operation>, StoreError> {
    // One statement for each, so that either walks an index from the cursor on.
    let sql = match status {
        None => {
            "SELECT * FROM operations WHERE project_id = $1 AND operation_id < $2 AND $3 IS NULL
             ORDER BY operation_id DESC LIMIT $4"
        }
        Some(_) => {
            "SELECT * FROM operations WHERE project_id = $1 AND operation_id < $2 AND status = $3
             ORDER BY operation_id DESC LIMIT $4"
        }
    };
    let rows: Vec<OperationRow> = sqlx::query_as(sql)
        .bind(project.as_str())
        .bind(before(page.after))
        .bind(status.map(OperationStatus::name))
        .bind(page.size)
        .fetch_all(connection)
        .await
        .map_err(unavailable("operations"))?;
    rows.into_iter().map(OperationRow::operation).collect()
}

/// The steps of an operation.
pub(crate) async fn steps(connection: &mut SqliteConnection, id: OperationId) -> Result<Vec<Step>, StoreError> {
    let rows: Vec<StepRow> = sqlx::query_as(
        "SELECT operation_steps.*, tasks.node_id AS node_id FROM tasks JOIN operation_steps USING (task_id)
         WHERE tasks.operation_id = $1 AND superseded = 0 ORDER BY tasks.node_id, step_index",
    )
    .bind(id.to_string())
    .fetch_all(connection)
    .await
    .map_err(unavailable("steps"))?;
    rows.into_iter().map(StepRow::step).collect()
}
