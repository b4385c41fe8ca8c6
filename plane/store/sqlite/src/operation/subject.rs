//! What every event and audit row of an operation says of it.

use fettle_store::StoreError;
pub(crate) use fettle_store_rows::subject::Subject;

use crate::{error::unavailable, writer::Unit};

/// Reads the facts of an operation that never change.
pub(crate) async fn read(unit: &mut Unit, operation_id: &str) -> Result<Subject, StoreError> {
    sqlx::query_as(
        "SELECT operation_id, operation_type, version, org_id, project_id, correlation_id, total_steps, run,
             trace_parent
         FROM operations WHERE operation_id = $1",
    )
    .bind(operation_id)
    .fetch_one(&mut unit.connection)
    .await
    .map_err(unavailable("operation"))
}
