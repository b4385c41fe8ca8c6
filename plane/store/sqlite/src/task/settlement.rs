//! What became of steps whose end nobody saw.

use fettle_store::StoreError;
use fettle_store_rows::settlement::unheard;

use crate::{error::unavailable, row, writer::Unit};

/// The task ends without a word of its node: of what ran there nobody knows how it ended.
pub(super) async fn leave_in_question(unit: &mut Unit, task_id: &str) -> Result<(), StoreError> {
    sqlx::query("UPDATE operation_steps SET settlement = $2 WHERE task_id = $1 AND status = 'running'")
        .bind(task_id)
        .bind(row::text("settlement", &unheard())?)
        .execute(&mut unit.connection)
        .await
        .map_err(unavailable("expire_leases"))?;
    Ok(())
}
