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

use crate::{
    PostgresStore, row,
    unit::{Asking, Unit},
};

const WHAT: &str = "operation";

/// What is of an operation, in the order in which it can go; `$1` are the operations.
const PARTS: [&str; 9] = [
    "DELETE FROM operation_logs WHERE operation_id = ANY($1)",
    "DELETE FROM log_segments WHERE operation_id = ANY($1)",
    "DELETE FROM log_totals WHERE operation_id = ANY($1)",
    "DELETE FROM outbox_events WHERE operation_id = ANY($1)",
    "DELETE FROM operation_steps WHERE operation_id = ANY($1)",
    "DELETE FROM operation_artifacts WHERE operation_id = ANY($1)",
    "DELETE FROM operation_decisions WHERE operation_id = ANY($1)",
    "DELETE FROM tasks WHERE operation_id = ANY($1)",
    "DELETE FROM operations WHERE operation_id = ANY($1)",
];

const LINES: &str = "DELETE FROM operation_logs WHERE sequence IN (SELECT sequence FROM operation_logs
    WHERE operation_id = ANY($1) LIMIT $2)";
const SEGMENTS: &str = "DELETE FROM log_segments WHERE (operation_id, last_sequence) IN (
    SELECT operation_id, last_sequence FROM log_segments WHERE operation_id = ANY($1) LIMIT $2)";
const EVENTS: &str = "DELETE FROM outbox_events WHERE sequence IN (SELECT sequence FROM outbox_events
    WHERE operation_id = ANY($1) LIMIT $2)";

fn names(operations: &[OperationId]) -> Vec<String> {
    operations.iter().map(ToString::to_string).collect()
}

async fn delete(
    unit: &mut Unit,
    statements: &[&'static str],
    operations: &[OperationId],
    most: u32,
) -> Result<u64, StoreError> {
    let mut removed = 0;
    for sql in statements {
        removed += unit.execute(*sql, |query| query.bind(names(operations)).bind(i64::from(most))).await?;
    }
    Ok(removed)
}

async fn remove(unit: &mut Unit, operations: &[OperationId], before: Timestamp) -> Result<u64, StoreError> {
    // Tasks before operations, as everywhere.
    let sql = "SELECT task_id FROM tasks WHERE operation_id = ANY($1) ORDER BY task_id FOR UPDATE";
    unit.look(sql, |query: Asking<(String,)>| query.bind(names(operations))).await?;
    // One that was retried meanwhile is not over any more.
    let sql = "SELECT operation_id FROM operations WHERE operation_id = ANY($1) AND finished_at <= $2
               ORDER BY operation_id FOR UPDATE";
    let at = before.as_millisecond();
    let over = unit.look(sql, |query: Asking<(String,)>| query.bind(names(operations)).bind(at)).await?;
    let over: Vec<String> = over.into_iter().map(|(id,)| id).collect();
    for sql in PARTS {
        unit.execute(sql, |query| query.bind(over.clone())).await?;
    }
    Ok(u64::try_from(over.len()).unwrap_or(u64::MAX))
}

#[async_trait]
impl RetentionStore for PostgresStore {
    async fn claim_chore(&self, name: &'static str, claim: Claim, context: Context) -> Result<bool, StoreError> {
        let sql = "INSERT INTO chores (name, claimed_by, claimed_until) VALUES ($1, $2, $3)
                   ON CONFLICT (name) DO UPDATE SET claimed_by = $2, claimed_until = $3
                   WHERE chores.claimed_by = $2 OR chores.claimed_until <= $4";
        self.writer
            .run("claim_chore", (name, claim, context), move |unit, (name, claim, context)| {
                Box::pin(async move {
                    let (until, now) = (claim.until.as_millisecond(), context.at.as_millisecond());
                    let bind = |query: crate::unit::Telling| {
                        query.bind((*name).to_owned()).bind(claim.owner.clone()).bind(until).bind(now)
                    };
                    Ok(unit.execute(sql, bind).await? > 0)
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
        let sql = "SELECT operation_id, finished_at FROM operations
                   WHERE finished_at IS NOT NULL AND finished_at <= $1 AND (finished_at, operation_id) > ($2, $3)
                       AND (status = 'failed') = $4
                   ORDER BY finished_at, operation_id LIMIT $5";
        let bind = |query: Asking<(String, i64)>| {
            query
                .bind(before.as_millisecond())
                .bind(after.map_or(i64::MIN, |after| after.at.as_millisecond()))
                .bind(after.map_or_else(String::new, |after| after.operation.to_string()))
                .bind(failed)
                .bind(i64::from(most))
        };
        let rows = self.reader.all("ended_operations", sql, bind).await?;
        let ended = |(id, at): (String, i64)| Ok(Ended { operation: row::parse(WHAT, &id)?, at: row::time(WHAT, at)? });
        rows.into_iter().map(ended).collect()
    }

    async fn remove_logs(&self, operations: Vec<OperationId>, most: u32) -> Result<u64, StoreError> {
        self.writer
            .run("remove_logs", (operations, most), |unit, (operations, most)| {
                Box::pin(delete(unit, &[LINES, SEGMENTS], operations, *most))
            })
            .await
    }

    async fn remove_events(&self, operations: Vec<OperationId>, most: u32) -> Result<u64, StoreError> {
        self.writer
            .run("remove_events", (operations, most), |unit, (operations, most)| {
                Box::pin(delete(unit, &[EVENTS], operations, *most))
            })
            .await
    }

    async fn remove_operations(&self, operations: Vec<OperationId>, before: Timestamp) -> Result<u64, StoreError> {
        self.writer
            .run("remove_operations", (operations, before), |unit, (operations, before)| {
                Box::pin(remove(unit, operations, *before))
            })
            .await
    }

    async fn remove_dead_letters(&self, before: Timestamp, most: u32) -> Result<u64, StoreError> {
        let sql = "DELETE FROM webhook_dead_letters WHERE (webhook_id, sequence) IN (
                       SELECT webhook_id, sequence FROM webhook_dead_letters
                       WHERE failed_at <= $1 AND replay_at IS NULL LIMIT $2)";
        self.writer
            .run("remove_dead_letters", (before.as_millisecond(), i64::from(most)), move |unit, (before, most)| {
                Box::pin(async move { unit.execute(sql, |query| query.bind(*before).bind(*most)).await })
            })
            .await
    }
}
