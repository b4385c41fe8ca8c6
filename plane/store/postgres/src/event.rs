//! The outbox.

use async_trait::async_trait;
use fettle_store::{
    StoreError,
    event::{Event, EventStore},
    id::OperationId,
    page::Page,
};
use fettle_store_rows::event::EventRow;

use crate::{PostgresStore, unit::Asking};

#[async_trait]
impl EventStore for PostgresStore {
    async fn events(&self, operation: OperationId, page: Page<i64>) -> Result<Vec<Event>, StoreError> {
        let sql = "SELECT sequence, operation_id, kind, at, payload FROM outbox_events
                   WHERE operation_id = $1 AND sequence > $2 ORDER BY sequence LIMIT $3";
        let bind = |query: Asking<EventRow>| {
            query.bind(operation.to_string()).bind(page.after.unwrap_or(0)).bind(i64::from(page.size))
        };
        let rows = self.reader.all("events", sql, bind).await?;
        rows.into_iter().map(EventRow::event).collect()
    }

    async fn outbox(&self, page: Page<i64>) -> Result<Vec<Event>, StoreError> {
        let sql = "SELECT sequence, operation_id, kind, at, payload FROM outbox_events
                   WHERE sequence > $1 ORDER BY sequence LIMIT $2";
        let bind = |query: Asking<EventRow>| query.bind(page.after.unwrap_or(0)).bind(i64::from(page.size));
        let rows = self.reader.all("outbox", sql, bind).await?;
        rows.into_iter().map(EventRow::event).collect()
    }

    async fn newest_event(&self) -> Result<i64, StoreError> {
        let sql = "SELECT coalesce(max(sequence), 0) FROM outbox_events";
        let newest: Option<(i64,)> = self.reader.one("newest_event", sql, |query| query).await?;
        Ok(newest.map_or(0, |(sequence,)| sequence))
    }
}
