//! Log lines of steps.

use async_trait::async_trait;
use fettle_model::{name::StepId, task::LogLine};
use fettle_store::{
    StoreError,
    id::{NodeId, OperationId},
    log::{LogRecord, LogStore},
    page::Page,
};
pub(crate) use fettle_store_rows::log::prefix;
use fettle_store_rows::log::{LogRow, kept};

use crate::{SqliteStore, error::unavailable, row, task::report::Target, writer::Unit};

const WHAT: &str = "log line";

/// Appends lines of a step that has `stored` already; answers how many were kept.
pub(crate) async fn append(
    unit: &mut Unit,
    target: &Target,
    step_id: &StepId,
    attempt: u32,
    stored: i64,
    lines: &[LogLine],
) -> Result<i64, StoreError> {
    let kept = kept(stored, lines);
    if kept.is_empty() {
        return Ok(0);
    }
    sqlx::query(
        "INSERT INTO operation_logs (operation_id, node_id, step_id, attempt, at, level, text)
         SELECT $1, $2, $3, $4, value ->> 'at', value ->> 'level', value ->> 'text' FROM json_each($5) ORDER BY key",
    )
    .bind(&target.held.subject.operation_id)
    .bind(&target.held.node_id)
    .bind(step_id.as_str())
    .bind(attempt)
    .bind(row::text(WHAT, &kept)?)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("apply_reports"))?;
    Ok(i64::try_from(kept.len()).unwrap_or(i64::MAX))
}

#[async_trait]
impl LogStore for SqliteStore {
    async fn logs(
        &self,
        operation: OperationId,
        node: Option<NodeId>,
        step: Option<&StepId>,
        page: Page<i64>,
    ) -> Result<Vec<LogRecord>, StoreError> {
        let rows: Vec<LogRow> = sqlx::query_as(
            "SELECT sequence, node_id, step_id, attempt, at, level, text FROM operation_logs
             WHERE operation_id = $1 AND sequence > $2 AND ($3 IS NULL OR step_id = $3)
                 AND ($5 IS NULL OR node_id = $5)
             ORDER BY sequence LIMIT $4",
        )
        .bind(operation.to_string())
        .bind(page.after.unwrap_or(0))
        .bind(step.map(StepId::as_str))
        .bind(page.size)
        .bind(node.map(|id| id.to_string()))
        .fetch_all(&self.readers)
        .await
        .map_err(unavailable("logs"))?;
        rows.into_iter().map(LogRow::record).collect()
    }
}
