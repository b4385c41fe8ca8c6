//! Rows of the outbox.

use fettle_store::{
    StoreError,
    event::{Event, EventKind},
};
use sqlx_macros::FromRow;

use crate::row;

const WHAT: &str = "event";

/// A row as it is stored.
#[derive(FromRow)]
pub struct EventRow {
    sequence: i64,
    operation_id: String,
    kind: String,
    at: i64,
    payload: String,
}

/// A kind that this version does not know.
#[derive(Debug, thiserror::Error)]
#[error("event kind `{0}` is unknown")]
struct UnknownKind(String);

impl EventRow {
    /// The event.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn event(self) -> Result<Event, StoreError> {
        let kind = EventKind::from_name(&self.kind);
        Ok(Event {
            sequence: self.sequence,
            kind: kind.ok_or_else(|| StoreError::corrupt(WHAT, UnknownKind(self.kind.clone())))?,
            operation_id: row::parse(WHAT, &self.operation_id)?,
            at: row::time(WHAT, self.at)?,
            payload: row::document(WHAT, &self.payload)?,
        })
    }
}
