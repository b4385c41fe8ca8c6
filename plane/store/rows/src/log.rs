//! Rows of log lines.

use fettle_model::task::{LogLevel, LogLine};
use fettle_store::{StoreError, log::LogRecord};
use serde::Serialize;
use sqlx::FromRow;

use crate::row;

const WHAT: &str = "log line";

/// Lines kept of one step. More are counted as dropped, in one last line.
pub const LINES_PER_STEP: i64 = 100_000;

/// Characters kept of one line.
const LINE_LENGTH: usize = 8_192;

/// A row as it is stored.
#[derive(FromRow)]
pub struct LogRow {
    sequence: i64,
    node_id: String,
    step_id: String,
    attempt: i64,
    at: i64,
    level: String,
    text: String,
}

impl LogRow {
    /// The record.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn record(self) -> Result<LogRecord, StoreError> {
        let level: LogLevel = row::document(WHAT, &format!("\"{}\"", self.level))?;
        Ok(LogRecord {
            sequence: self.sequence,
            node_id: row::parse(WHAT, &self.node_id)?,
            step_id: row::parse(WHAT, &self.step_id)?,
            attempt: row::number(WHAT, self.attempt)?,
            line: LogLine { at: self.at, level, text: self.text },
        })
    }
}

/// A line as it is kept.
#[derive(Serialize)]
pub struct Kept<'a> {
    /// When, by the node's clock.
    pub at: i64,
    /// How important.
    pub level: LogLevel,
    /// Not too long.
    pub text: &'a str,
}

/// What is kept of lines of a step that has `stored` already. The last one that there is room for says so.
#[must_use]
pub fn kept(stored: i64, lines: &[LogLine]) -> Vec<Kept<'_>> {
    let room = usize::try_from(LINES_PER_STEP.saturating_sub(stored)).unwrap_or(0);
    let mut kept: Vec<Kept<'_>> = lines.iter().take(room).map(shorten).collect();
    if lines.len() >= room
        && let Some(last) = kept.last_mut()
    {
        last.text = "the log of this step is full; further lines are dropped";
    }
    kept
}

fn shorten(line: &LogLine) -> Kept<'_> {
    Kept { at: line.at, level: line.level, text: prefix(&line.text) }
}

/// The start of a text that is too long.
#[must_use]
pub fn prefix(text: &str) -> &str {
    text.char_indices().nth(LINE_LENGTH).map_or(text, |(end, _)| text.get(..end).unwrap_or(text))
}
