//! Log lines of steps.

use async_trait::async_trait;
use fettle_model::name::StepId;
use fettle_store::{
    StoreError,
    id::{NodeId, OperationId},
    log::{LogRecord, LogStore},
    page::Page,
};
use fettle_store_rows::log::LogRow;

use crate::{PostgresStore, unit::Asking};

#[async_trait]
impl LogStore for PostgresStore {
    async fn logs(
        &self,
        operation: OperationId,
        node: Option<NodeId>,
        step: Option<&StepId>,
        page: Page<i64>,
    ) -> Result<Vec<LogRecord>, StoreError> {
        let sql = "SELECT sequence, node_id, step_id, attempt, at, level, text FROM operation_logs
                   WHERE operation_id = $1 AND sequence > $2 AND ($3 IS NULL OR step_id = $3)
                       AND ($5 IS NULL OR node_id = $5)
                   ORDER BY sequence LIMIT $4";
        let bind = |query: Asking<LogRow>| {
            query
                .bind(operation.to_string())
                .bind(page.after.unwrap_or(0))
                .bind(step.map(ToString::to_string))
                .bind(i64::from(page.size))
                .bind(node.map(|id| id.to_string()))
        };
        let rows = self.reader.all("logs", sql, bind).await?;
        rows.into_iter().map(LogRow::record).collect()
    }
}
