//! Tasks and leases.

pub(crate) mod admission;
mod expire;
mod finish;
mod held;
mod lease;
pub(crate) mod queue;
pub(crate) mod report;

use async_trait::async_trait;
use fettle_model::task::TaskOutcome;
use fettle_store::{
    StoreError,
    change::Change,
    context::Context,
    id::{NodeId, TaskId},
    task::{Extended, Lease, LeaseKey, OpenTasks, Report, Resumed, TaskStore, Verdict},
};
use jiff::Timestamp;

use crate::{SqliteStore, error::unavailable, row};

#[async_trait]
impl TaskStore for SqliteStore {
    async fn lease_tasks(
        &self,
        node_id: NodeId,
        limit: u32,
        acknowledge_by: Timestamp,
        context: Context,
    ) -> Result<Vec<Lease>, StoreError> {
        // Most wake-ups find nothing; a look costs less than a turn at the writer.
        let mut reader = self.readers.acquire().await.map_err(unavailable("lease_tasks"))?;
        if limit == 0 || !lease::any_ready(&mut reader, node_id).await? {
            return Ok(Vec::new());
        }
        drop(reader);
        self.writer
            .run("lease_tasks", move |unit| {
                Box::pin(async move { lease::lease(unit, node_id, limit, acknowledge_by, &context).await })
            })
            .await
    }

    async fn resume_leases(
        &self,
        node_id: NodeId,
        held: Vec<TaskId>,
        deadline: Timestamp,
        context: Context,
    ) -> Result<Resumed, StoreError> {
        self.writer
            .run("resume_leases", move |unit| {
                Box::pin(async move { held::resume(unit, node_id, &held, deadline, &context).await })
            })
            .await
    }

    async fn acknowledge_lease(
        &self,
        lease: LeaseKey,
        deadline: Timestamp,
        context: Context,
    ) -> Result<Verdict, StoreError> {
        self.writer
            .run("acknowledge_lease", move |unit| {
                Box::pin(async move { Ok(held::extend(unit, lease, deadline, &context).await?.verdict) })
            })
            .await
    }

    async fn apply_reports(
        &self,
        reports: Vec<Report>,
        context: Context,
    ) -> Result<Vec<Result<Verdict, StoreError>>, StoreError> {
        self.writer
            .run("apply_reports", move |unit| {
                Box::pin(async move { report::apply_all(unit, &reports, &context).await })
            })
            .await
    }

    async fn extend_lease(
        &self,
        lease: LeaseKey,
        deadline: Timestamp,
        context: Context,
    ) -> Result<Extended, StoreError> {
        self.writer
            .run("extend_lease", move |unit| {
                Box::pin(async move { held::extend(unit, lease, deadline, &context).await })
            })
            .await
    }

    async fn finish_task(
        &self,
        lease: LeaseKey,
        outcome: TaskOutcome,
        context: Context,
    ) -> Result<Verdict, StoreError> {
        self.writer
            .run("finish_task", move |unit| {
                Box::pin(async move { finish::finish(unit, lease, outcome, &context).await })
            })
            .await
    }

    async fn expire_leases(&self, context: Context) -> Result<u64, StoreError> {
        self.writer
            .run("expire_leases", move |unit| Box::pin(async move { expire::expire(unit, &context).await }))
            .await
    }

    async fn spare_leases(&self, until: Timestamp) -> Result<(), StoreError> {
        self.writer
            .run("spare_leases", move |unit| {
                Box::pin(async move {
                    sqlx::query("UPDATE tasks SET deadline = $1 WHERE status = 'leased' AND deadline < $1")
                        .bind(until.as_millisecond())
                        .execute(&mut unit.connection)
                        .await
                        .map_err(unavailable("spare_leases"))?;
                    unit.announce(Change::Lease);
                    Ok(())
                })
            })
            .await
    }

    async fn next_lease_deadline(&self) -> Result<Option<Timestamp>, StoreError> {
        let (earliest,): (Option<i64>,) = sqlx::query_as("SELECT min(deadline) FROM tasks WHERE status = 'leased'")
            .fetch_one(&self.readers)
            .await
            .map_err(unavailable("next_lease_deadline"))?;
        row::optional_time("task", earliest)
    }

    async fn open_tasks(&self) -> Result<OpenTasks, StoreError> {
        let (ready, leased): (i64, i64) = sqlx::query_as(
            "SELECT coalesce(sum(status = 'ready'), 0), coalesce(sum(status = 'leased'), 0)
             FROM tasks WHERE status IN ('ready', 'leased')",
        )
        .fetch_one(&self.readers)
        .await
        .map_err(unavailable("open_tasks"))?;
        Ok(OpenTasks { ready: row::number("task", ready)?, leased: row::number("task", leased)? })
    }

    async fn cancel_requests(&self, node_id: NodeId) -> Result<Vec<TaskId>, StoreError> {
        let rows: Vec<(String,)> = sqlx::query_as(
            "SELECT task_id FROM tasks WHERE node_id = $1 AND status = 'leased' AND cancel_requested = 1
             ORDER BY task_id",
        )
        .bind(node_id.to_string())
        .fetch_all(&self.readers)
        .await
        .map_err(unavailable("cancel_requests"))?;
        rows.iter().map(|(id,)| row::parse("task", id)).collect()
    }
}
