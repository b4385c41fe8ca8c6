//! The outbox.

use async_trait::async_trait;
use fettle_store::{
    StoreError,
    event::{Event, EventStore},
    id::OperationId,
    page::Page,
};
use fettle_store_rows::event::EventRow;

use crate::{SqliteStore, error::unavailable};

#[async_trait]
impl EventStore for SqliteStore {
    async fn events(&self, operation: OperationId, page: Page<i64>) -> Result<Vec<Event>, StoreError> {
        let rows: Vec<EventRow> = sqlx::query_as(
            "SELECT * FROM outbox_events WHERE operation_id = $1 AND sequence > $2 ORDER BY sequence LIMIT $3",
        )
        .bind(operation.to_string())
        .bind(page.after.unwrap_or(0))
        .bind(page.size)
        .fetch_all(&mut *self.readers.take("events").await?)
        .await
        .map_err(unavailable("events"))?;
        rows.into_iter().map(EventRow::event).collect()
    }

    async fn outbox(&self, page: Page<i64>) -> Result<Vec<Event>, StoreError> {
        let rows: Vec<EventRow> =
            sqlx::query_as("SELECT * FROM outbox_events WHERE sequence > $1 ORDER BY sequence LIMIT $2")
                .bind(page.after.unwrap_or(0))
                .bind(page.size)
                .fetch_all(&mut *self.readers.take("outbox").await?)
                .await
                .map_err(unavailable("outbox"))?;
        rows.into_iter().map(EventRow::event).collect()
    }

    async fn newest_event(&self) -> Result<i64, StoreError> {
        sqlx::query_scalar("SELECT coalesce(max(sequence), 0) FROM outbox_events")
            .fetch_one(&mut *self.readers.take("newest_event").await?)
            .await
            .map_err(unavailable("newest_event"))
    }
}
