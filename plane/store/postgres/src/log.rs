//! Log lines of steps.

use async_trait::async_trait;
use fettle_model::name::StepId;
use fettle_store::{
    StoreError,
    id::{NodeId, OperationId},
    log::{ClosedSegment, LogRecord, LogStore, SegmentBounds},
    page::Page,
};
use fettle_store_rows::{
    log::LogRow,
    segment::{self, Filling, SegmentRow},
};

use crate::{
    PostgresStore, row,
    unit::{Asking, Unit},
};

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
        // These first: what is moved into a segment meanwhile is then found there.
        let rows = self.reader.all("logs", sql, bind).await?;
        let mut filling = Filling::new(node, step, page);
        while self.fill(operation, &mut filling).await? {}
        filling.finish(rows)
    }

    async fn logs_to_close(&self, bounds: SegmentBounds, most: u32) -> Result<Vec<OperationId>, StoreError> {
        let sql = "SELECT operation_id FROM operation_logs GROUP BY operation_id
                   HAVING count(*) >= $1 OR EXISTS (SELECT 1 FROM operations
                       WHERE operations.operation_id = operation_logs.operation_id AND finished_at IS NOT NULL)
                   LIMIT $2";
        let bind = |query: Asking<(String,)>| query.bind(i64::from(bounds.lines)).bind(i64::from(most));
        let rows = self.reader.all("logs_to_close", sql, bind).await?;
        rows.into_iter().map(|(id,)| row::parse("log line", &id)).collect()
    }

    async fn close_log_segment(
        &self,
        operation: OperationId,
        bounds: SegmentBounds,
    ) -> Result<Option<ClosedSegment>, StoreError> {
        self.writer
            .run("close_log_segment", (operation.to_string(), bounds), |unit, (operation, bounds)| {
                Box::pin(close(unit, operation, *bounds))
            })
            .await
    }
}

impl PostgresStore {
    /// Looks at some segments; answers whether there may be more that are needed.
    async fn fill(&self, operation: OperationId, filling: &mut Filling) -> Result<bool, StoreError> {
        let sql = "SELECT first_sequence, last_sequence, places FROM log_segments
                   WHERE operation_id = $1 AND last_sequence > $2 ORDER BY last_sequence LIMIT 50";
        let reached = filling.reached();
        let bind = |query: Asking<SegmentRow>| query.bind(operation.to_string()).bind(reached);
        let segments = self.reader.all("logs", sql, bind).await?;
        for segment in &segments {
            if filling.pass(segment)? {
                let sql = "SELECT body FROM log_segments WHERE operation_id = $1 AND last_sequence = $2";
                let bind = |query: Asking<(Vec<u8>,)>| query.bind(operation.to_string()).bind(segment.last_sequence);
                let (body,) = self.reader.one("logs", sql, bind).await?.unwrap_or_default();
                filling.add(&body)?;
            }
            if filling.is_full() {
                return Ok(false);
            }
        }
        Ok(!segments.is_empty())
    }
}

/// Another plane that closes the same lines waits for this one, and finds others then.
async fn close(unit: &mut Unit, operation: &str, bounds: SegmentBounds) -> Result<Option<ClosedSegment>, StoreError> {
    let sql = "SELECT sequence, node_id, step_id, attempt, at, level, text FROM operation_logs
               WHERE operation_id = $1 ORDER BY sequence LIMIT $2 FOR UPDATE";
    let lines = i64::from(bounds.lines);
    let rows = unit.look(sql, |query: Asking<LogRow>| query.bind(operation.to_owned()).bind(lines)).await?;
    let sql = "SELECT node_id, bytes FROM log_totals WHERE operation_id = $1";
    let totals = unit.look(sql, |query: Asking<(String, i64)>| query.bind(operation.to_owned())).await?;
    let Some(segment) = segment::close(rows, &totals.into_iter().collect(), bounds)? else { return Ok(None) };
    let last = segment.last_sequence;
    let sql = "DELETE FROM operation_logs WHERE operation_id = $1 AND sequence <= $2";
    unit.execute(sql, |query| query.bind(operation.to_owned()).bind(last)).await?;
    let sql = "INSERT INTO log_segments (operation_id, first_sequence, last_sequence, lines, bytes, places, body)
               VALUES ($1, $2, $3, $4, $5, $6, $7)";
    unit.execute(sql, |query| {
        query
            .bind(operation.to_owned())
            .bind(segment.first_sequence)
            .bind(last)
            .bind(segment.lines)
            .bind(segment.bytes)
            .bind(segment.places.clone())
            .bind(segment.body.clone())
    })
    .await?;
    let sql = "INSERT INTO log_totals (operation_id, node_id, bytes)
               SELECT $1, * FROM unnest($2::text[], $3::bigint[])
               ON CONFLICT (operation_id, node_id) DO UPDATE SET bytes = excluded.bytes";
    let nodes: Vec<String> = segment.totals.keys().cloned().collect();
    let bytes: Vec<i64> = segment.totals.values().copied().collect();
    unit.execute(sql, |query| query.bind(operation.to_owned()).bind(nodes).bind(bytes)).await?;
    segment.closed().map(Some)
}
