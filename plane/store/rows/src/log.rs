//! Rows of log lines.

use fettle_model::task::{LogLevel, LogLine};
use fettle_store::{StoreError, log::LogRecord};
use serde::{Deserialize, Serialize};
use sqlx_macros::FromRow;

use crate::row;

const WHAT: &str = "log line";

/// Lines kept of one step. Where there are more, one last line says so.
pub const LINES_PER_STEP: i64 = 100_000;

/// The same with that last line.
pub const MOST_LINES_PER_STEP: i64 = LINES_PER_STEP + 1;

const FULL: &str = "the log of this step is full; further lines are dropped";

/// Characters kept of one line.
const LINE_LENGTH: usize = 8_192;

/// A row as it is stored.
#[derive(Debug, FromRow, Serialize, Deserialize)]
pub struct LogRow {
    pub(crate) sequence: i64,
    pub(crate) node_id: String,
    pub(crate) step_id: String,
    pub(crate) attempt: i64,
    pub(crate) at: i64,
    pub(crate) level: String,
    pub(crate) text: String,
}

impl LogRow {
    /// Bytes of its text.
    pub(crate) fn length(&self) -> i64 {
        i64::try_from(self.text.len()).unwrap_or(i64::MAX)
    }

    /// Says in its place that it and others are missing.
    pub(crate) fn become_mark(&mut self, count: i64) {
        let lines = if count == 1 { "1 line was".to_owned() } else { format!("{count} lines were") };
        self.text = format!("{lines} dropped here: the log of this node is as long as it may be");
        "warn".clone_into(&mut self.level);
    }

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

/// What is kept of lines of a step that has `stored` already. Where some do not fit, one more line says so, once.
#[must_use]
pub fn kept(stored: i64, lines: &[LogLine]) -> Vec<Kept<'_>> {
    let room = usize::try_from(LINES_PER_STEP.saturating_sub(stored)).unwrap_or(0);
    let mut kept: Vec<Kept<'_>> = lines.iter().take(room).map(shorten).collect();
    if let Some(first) = lines.get(room).filter(|_| stored <= LINES_PER_STEP) {
        kept.push(Kept { at: first.at, level: LogLevel::Warn, text: FULL });
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

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize) -> Vec<LogLine> {
        (0..count).map(|number| LogLine { at: 1, level: LogLevel::Info, text: number.to_string() }).collect()
    }

    fn texts(stored: i64, count: usize) -> Vec<String> {
        kept(stored, &lines(count)).iter().map(|line| line.text.to_owned()).collect()
    }

    #[test]
    fn lines_that_just_fit_are_all_kept() {
        assert_eq!(texts(LINES_PER_STEP - 3, 3), ["0", "1", "2"]);
    }

    #[test]
    fn a_full_log_says_so_once() {
        assert_eq!(texts(LINES_PER_STEP - 1, 3), ["0", FULL]);
        assert_eq!(texts(LINES_PER_STEP, 2), [FULL]);
        assert_eq!(texts(MOST_LINES_PER_STEP, 2), Vec::<String>::new());
    }
}
