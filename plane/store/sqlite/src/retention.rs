//! Removing what is old enough.

use async_trait::async_trait;
use fettle_store::{
    StoreError,
    context::Context,
    id::OperationId,
    retention::{Ended, RetentionStore},
    webhook::Claim,
};
use jiff::Timestamp;

use crate::{SqliteStore, error::unavailable, row, writer::Unit};

const WHAT: &str = "operation";

/// What is of an operation, in the order in which it can go; `$1` are the operations.
const PARTS: [&str; 9] = [
    "DELETE FROM operation_logs WHERE operation_id IN (SELECT value FROM json_each($1))",
    "DELETE FROM log_segments WHERE operation_id IN (SELECT value FROM json_each($1))",
    "DELETE FROM log_totals WHERE operation_id IN (SELECT value FROM json_each($1))",
    "DELETE FROM outbox_events WHERE operation_id IN (SELECT value FROM json_each($1))",
    "DELETE FROM operation_steps WHERE operation_id IN (SELECT value FROM json_each($1))",
    "DELETE FROM operation_artifacts WHERE operation_id IN (SELECT value FROM json_each($1))",
    "DELETE FROM operation_decisions WHERE operation_id IN (SELECT value FROM json_each($1))",
    "DELETE FROM tasks WHERE operation_id IN (SELECT value FROM json_each($1))",
    "DELETE FROM operations WHERE operation_id IN (SELECT value FROM json_each($1))",
];

const LINES: &str = "DELETE FROM operation_logs WHERE sequence IN (SELECT sequence FROM operation_logs
    WHERE operation_id IN (SELECT value FROM json_each($1)) LIMIT $2)";
const SEGMENTS: &str = "DELETE FROM log_segments WHERE rowid IN (SELECT rowid FROM log_segments
    WHERE operation_id IN (SELECT value FROM json_each($1)) LIMIT $2)";
const EVENTS: &str = "DELETE FROM outbox_events WHERE sequence IN (SELECT sequence FROM outbox_events
    WHERE operation_id IN (SELECT value FROM json_each($1)) LIMIT $2)";

fn names(operations: &[OperationId]) -> Result<String, StoreError> {
    row::text(WHAT, &operations.iter().map(ToString::to_string).collect::<Vec<_>>())
}

async fn delete(
    unit: &mut Unit,
    verb: &'static str,
    statements: &[&'static str],
    operations: &[OperationId],
    most: u32,
) -> Result<u64, StoreError> {
    let names = names(operations)?;
    let mut removed = 0;
    for sql in statements {
        let done = sqlx::query(*sql).bind(&names).bind(most).execute(&mut unit.connection).await;
        removed += done.map_err(unavailable(verb))?.rows_affected();
    }
    Ok(removed)
}

async fn remove(unit: &mut Unit, operations: &[OperationId], before: Timestamp) -> Result<u64, StoreError> {
    const VERB: &str = "remove_operations";
    // One that was retried meanwhile is not over any more.
    let over: Vec<(String,)> = sqlx::query_as(
        "SELECT operation_id FROM operations
         WHERE operation_id IN (SELECT value FROM json_each($1)) AND finished_at <= $2",
    )
    .bind(names(operations)?)
    .bind(before.as_millisecond())
    .fetch_all(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    let names = row::text(WHAT, &over.iter().map(|(id,)| id).collect::<Vec<_>>())?;
    for sql in PARTS {
        sqlx::query(sql).bind(&names).execute(&mut unit.connection).await.map_err(unavailable(VERB))?;
    }
    Ok(u64::try_from(over.len()).unwrap_or(u64::MAX))
}

#[async_trait]
impl RetentionStore for SqliteStore {
    async fn claim_chore(&self, name: &'static str, claim: Claim, context: Context) -> Result<bool, StoreError> {
        self.writer
            .run("claim_chore", move |unit| {
                Box::pin(async move {
                    let claimed = sqlx::query(
                        "INSERT INTO chores (name, claimed_by, claimed_until) VALUES ($1, $2, $3)
                         ON CONFLICT (name) DO UPDATE SET claimed_by = $2, claimed_until = $3
                         WHERE claimed_by = $2 OR claimed_until <= $4",
                    )
                    .bind(name)
                    .bind(claim.owner)
                    .bind(claim.until.as_millisecond())
                    .bind(context.at.as_millisecond())
                    .execute(&mut unit.connection)
                    .await
                    .map_err(unavailable("claim_chore"))?;
                    Ok(claimed.rows_affected() > 0)
                })
            })
            .await
    }

    async fn ended_operations(
        &self,
        failed: bool,
        before: Timestamp,
        after: Option<Ended>,
        most: u32,
    ) -> Result<Vec<Ended>, StoreError> {
        let rows: Vec<(String, i64)> = sqlx::query_as(
            "SELECT operation_id, finished_at FROM operations
             WHERE finished_at IS NOT NULL AND finished_at <= $1 AND (finished_at, operation_id) > ($2, $3)
                 AND (status = 'failed') = $4
             ORDER BY finished_at, operation_id LIMIT $5",
        )
        .bind(before.as_millisecond())
        .bind(after.map_or(i64::MIN, |after| after.at.as_millisecond()))
        .bind(after.map_or_else(String::new, |after| after.operation.to_string()))
        .bind(failed)
        .bind(most)
        .fetch_all(&mut *self.readers.take("ended_operations").await?)
        .await
        .map_err(unavailable("ended_operations"))?;
        let ended = |(id, at): (String, i64)| Ok(Ended { operation: row::parse(WHAT, &id)?, at: row::time(WHAT, at)? });
        rows.into_iter().map(ended).collect()
    }

    async fn remove_logs(&self, operations: Vec<OperationId>, most: u32) -> Result<u64, StoreError> {
        self.writer
            .run("remove_logs", move |unit| {
                Box::pin(async move { delete(unit, "remove_logs", &[LINES, SEGMENTS], &operations, most).await })
            })
            .await
    }

    async fn remove_events(&self, operations: Vec<OperationId>, most: u32) -> Result<u64, StoreError> {
        self.writer
            .run("remove_events", move |unit| {
                Box::pin(async move { delete(unit, "remove_events", &[EVENTS], &operations, most).await })
            })
            .await
    }

    async fn remove_operations(&self, operations: Vec<OperationId>, before: Timestamp) -> Result<u64, StoreError> {
        self.writer
            .run("remove_operations", move |unit| Box::pin(async move { remove(unit, &operations, before).await }))
            .await
    }

    async fn remove_dead_letters(&self, before: Timestamp, most: u32) -> Result<u64, StoreError> {
        self.writer
            .run("remove_dead_letters", move |unit| {
                Box::pin(async move {
                    let removed = sqlx::query(
                        "DELETE FROM webhook_dead_letters WHERE (webhook_id, sequence) IN (
                             SELECT webhook_id, sequence FROM webhook_dead_letters
                             WHERE failed_at <= $1 AND replay_at IS NULL LIMIT $2)",
                    )
                    .bind(before.as_millisecond())
                    .bind(most)
                    .execute(&mut unit.connection)
                    .await
                    .map_err(unavailable("remove_dead_letters"))?;
                    Ok(removed.rows_affected())
                })
            })
            .await
    }
}
