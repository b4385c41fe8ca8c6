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
    report::Lines,
    segment::{self, Filling, SegmentRow},
};

use crate::{SqliteStore, error::unavailable, row, writer::Unit};

const WHAT: &str = "log line";

/// Appends lines of a step.
pub(crate) async fn append(unit: &mut Unit, lines: &Lines<'_>) -> Result<(), StoreError> {
    if lines.lines.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO operation_logs (operation_id, node_id, step_id, attempt, at, level, text)
         SELECT $1, $2, $3, $4, value ->> 'at', value ->> 'level', value ->> 'text' FROM json_each($5) ORDER BY key",
    )
    .bind(&lines.operation_id)
    .bind(&lines.node_id)
    .bind(lines.step_id.as_str())
    .bind(lines.attempt)
    .bind(row::text(WHAT, &lines.lines)?)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("apply_reports"))?;
    Ok(())
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
        // These first: what is moved into a segment meanwhile is then found there.
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
        .fetch_all(&mut *self.readers.take("logs").await?)
        .await
        .map_err(unavailable("logs"))?;
        let mut filling = Filling::new(node, step, page);
        while self.fill(operation, &mut filling).await? {}
        filling.finish(rows)
    }

    async fn logs_to_close(&self, bounds: SegmentBounds, most: u32) -> Result<Vec<OperationId>, StoreError> {
        let rows: Vec<(String,)> = sqlx::query_as(
            "SELECT operation_id FROM operation_logs GROUP BY operation_id
             HAVING count(*) >= $1 OR EXISTS (SELECT 1 FROM operations
                 WHERE operations.operation_id = operation_logs.operation_id AND finished_at IS NOT NULL)
             LIMIT $2",
        )
        .bind(bounds.lines)
        .bind(most)
        .fetch_all(&mut *self.readers.take("logs_to_close").await?)
        .await
        .map_err(unavailable("logs_to_close"))?;
        rows.into_iter().map(|(id,)| row::parse(WHAT, &id)).collect()
    }

    async fn close_log_segment(
        &self,
        operation: OperationId,
        bounds: SegmentBounds,
    ) -> Result<Option<ClosedSegment>, StoreError> {
        self.writer
            .run("close_log_segment", move |unit| {
                Box::pin(async move { close(unit, &operation.to_string(), bounds).await })
            })
            .await
    }
}

impl SqliteStore {
    /// Looks at some segments; answers whether there may be more that are needed.
    async fn fill(&self, operation: OperationId, filling: &mut Filling) -> Result<bool, StoreError> {
        let segments: Vec<SegmentRow> = sqlx::query_as(
            "SELECT first_sequence, last_sequence, places FROM log_segments
             WHERE operation_id = $1 AND last_sequence > $2 ORDER BY last_sequence LIMIT 50",
        )
        .bind(operation.to_string())
        .bind(filling.reached())
        .fetch_all(&mut *self.readers.take("fill").await?)
        .await
        .map_err(unavailable("logs"))?;
        for segment in &segments {
            if filling.pass(segment)? {
                let body: Option<Vec<u8>> =
                    sqlx::query_scalar("SELECT body FROM log_segments WHERE operation_id = $1 AND last_sequence = $2")
                        .bind(operation.to_string())
                        .bind(segment.last_sequence)
                        .fetch_optional(&mut *self.readers.take("fill").await?)
                        .await
                        .map_err(unavailable("logs"))?;
                filling.add(&body.unwrap_or_default())?;
            }
            if filling.is_full() {
                return Ok(false);
            }
        }
        Ok(!segments.is_empty())
    }
}

async fn close(unit: &mut Unit, operation: &str, bounds: SegmentBounds) -> Result<Option<ClosedSegment>, StoreError> {
    const VERB: &str = "close_log_segment";
    let rows: Vec<LogRow> = sqlx::query_as(
        "SELECT sequence, node_id, step_id, attempt, at, level, text FROM operation_logs
         WHERE operation_id = $1 ORDER BY sequence LIMIT $2",
    )
    .bind(operation)
    .bind(bounds.lines)
    .fetch_all(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    let totals: Vec<(String, i64)> = sqlx::query_as("SELECT node_id, bytes FROM log_totals WHERE operation_id = $1")
        .bind(operation)
        .fetch_all(&mut unit.connection)
        .await
        .map_err(unavailable(VERB))?;
    let Some(segment) = segment::close(rows, &totals.into_iter().collect(), bounds)? else { return Ok(None) };
    sqlx::query("DELETE FROM operation_logs WHERE operation_id = $1 AND sequence <= $2")
        .bind(operation)
        .bind(segment.last_sequence)
        .execute(&mut unit.connection)
        .await
        .map_err(unavailable(VERB))?;
    sqlx::query(
        "INSERT INTO log_segments (operation_id, first_sequence, last_sequence, lines, bytes, places, body)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(operation)
    .bind(segment.first_sequence)
    .bind(segment.last_sequence)
    .bind(segment.lines)
    .bind(segment.bytes)
    .bind(&segment.places)
    .bind(&segment.body)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    sqlx::query(
        "INSERT INTO log_totals (operation_id, node_id, bytes) SELECT $1, key, value FROM json_each($2) WHERE TRUE
         ON CONFLICT (operation_id, node_id) DO UPDATE SET bytes = excluded.bytes",
    )
    .bind(operation)
    .bind(row::text(WHAT, &segment.totals)?)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    segment.closed().map(Some)
}
