//! What became of steps whose end nobody saw.

use fettle_store::StoreError;
use fettle_store_rows::settlement::unheard;

use crate::{row, unit::Unit};

/// The task ends without a word of its node: of what ran there nobody knows how it ended.
pub(super) async fn leave_in_question(unit: &mut Unit, task_id: &str) -> Result<(), StoreError> {
    let document = row::text("settlement", &unheard())?;
    let sql = "UPDATE operation_steps SET settlement = $2 WHERE task_id = $1 AND status = 'running'";
    unit.execute(sql, |query| query.bind(task_id.to_owned()).bind(document)).await?;
    Ok(())
}
