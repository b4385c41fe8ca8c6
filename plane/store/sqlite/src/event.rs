//! The outbox.

use async_trait::async_trait;
use fettle_store::{
    StoreError,
    event::{Event, EventKind, EventStore},
    id::OperationId,
    page::Page,
};
use fettle_store_rows::event::EventRow;
use jiff::Timestamp;
use serde_json::Value;

use crate::{SqliteStore, error::unavailable, row, writer::Unit};

const WHAT: &str = "event";

/// Writes an event into the transaction of the change it tells of.
pub(crate) async fn append(
    unit: &mut Unit,
    operation_id: &str,
    kind: EventKind,
    at: Timestamp,
    payload: &Value,
) -> Result<(), StoreError> {
    sqlx::query("INSERT INTO outbox_events (operation_id, kind, at, payload) VALUES ($1, $2, $3, $4)")
        .bind(operation_id)
        .bind(kind.name())
        .bind(at.as_millisecond())
        .bind(row::text(WHAT, payload)?)
        .execute(&mut unit.connection)
        .await
        .map_err(unavailable("event"))?;
    Ok(())
}

#[async_trait]
impl EventStore for SqliteStore {
    async fn events(&self, operation: OperationId, page: Page<i64>) -> Result<Vec<Event>, StoreError> {
        let rows: Vec<EventRow> = sqlx::query_as(
            "SELECT * FROM outbox_events WHERE operation_id = $1 AND sequence > $2 ORDER BY sequence LIMIT $3",
        )
        .bind(operation.to_string())
        .bind(page.after.unwrap_or(0))
        .bind(page.size)
        .fetch_all(&self.readers)
        .await
        .map_err(unavailable("events"))?;
        rows.into_iter().map(EventRow::event).collect()
    }
}
