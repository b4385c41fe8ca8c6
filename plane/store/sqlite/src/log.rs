//! Log lines of steps.

use async_trait::async_trait;
use fettle_model::{
    name::StepId,
    task::{LogLevel, LogLine},
};
use fettle_store::{
    StoreError,
    id::OperationId,
    log::{LogRecord, LogStore},
    page::Page,
};
use serde::{Deserialize, Serialize};
use sqlx::FromRow;

use crate::{SqliteStore, error::unavailable, row, writer::Unit};

const WHAT: &str = "log line";

/// Lines kept of one step. More are counted as dropped, in one last line.
const LINES_PER_STEP: i64 = 100_000;

/// Characters kept of one line.
const LINE_LENGTH: usize = 8_192;

#[derive(FromRow)]
struct Row {
    sequence: i64,
    step_id: String,
    attempt: i64,
    at: i64,
    level: String,
    text: String,
}

impl Row {
    fn record(self) -> Result<LogRecord, StoreError> {
        let level: LogLevel = row::document(WHAT, &format!("\"{}\"", self.level))?;
        Ok(LogRecord {
            sequence: self.sequence,
            step_id: row::parse(WHAT, &self.step_id)?,
            attempt: row::number(WHAT, self.attempt)?,
            line: LogLine { at: self.at, level, text: self.text },
        })
    }
}

/// The line as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept<'a> {
    at: i64,
    level: LogLevel,
    text: &'a str,
}

/// Appends lines of a step that has `stored` already; answers how many were kept.
pub(crate) async fn append(
    unit: &mut Unit,
    operation_id: &str,
    step_id: &StepId,
    attempt: u32,
    stored: i64,
    lines: &[LogLine],
) -> Result<i64, StoreError> {
    let room = usize::try_from(LINES_PER_STEP.saturating_sub(stored)).unwrap_or(0);
    if room == 0 {
        return Ok(0);
    }
    let mut kept: Vec<Kept<'_>> = lines.iter().take(room).map(shorten).collect();
    if lines.len() >= room
        && let Some(last) = kept.last_mut()
    {
        last.text = "the log of this step is full; further lines are dropped";
    }
    sqlx::query(
        "INSERT INTO operation_logs (operation_id, step_id, attempt, at, level, text)
         SELECT $1, $2, $3, value ->> 'at', value ->> 'level', value ->> 'text' FROM json_each($4) ORDER BY key",
    )
    .bind(operation_id)
    .bind(step_id.as_str())
    .bind(attempt)
    .bind(row::text(WHAT, &kept)?)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("apply_reports"))?;
    Ok(i64::try_from(kept.len()).unwrap_or(i64::MAX))
}

fn shorten(line: &LogLine) -> Kept<'_> {
    Kept { at: line.at, level: line.level, text: prefix(&line.text) }
}

/// The start of a text that is too long.
pub(crate) fn prefix(text: &str) -> &str {
    text.char_indices().nth(LINE_LENGTH).map_or(text, |(end, _)| text.get(..end).unwrap_or(text))
}

#[async_trait]
impl LogStore for SqliteStore {
    async fn logs(
        &self,
        operation: OperationId,
        step: Option<&StepId>,
        page: Page<i64>,
    ) -> Result<Vec<LogRecord>, StoreError> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT sequence, step_id, attempt, at, level, text FROM operation_logs
             WHERE operation_id = $1 AND sequence > $2 AND ($3 IS NULL OR step_id = $3)
             ORDER BY sequence LIMIT $4",
        )
        .bind(operation.to_string())
        .bind(page.after.unwrap_or(0))
        .bind(step.map(StepId::as_str))
        .bind(page.size)
        .fetch_all(&self.readers)
        .await
        .map_err(unavailable("logs"))?;
        rows.into_iter().map(Row::record).collect()
    }
}
