//! Tasks and leases.

pub(crate) mod admission;
mod expire;
pub(crate) mod finish;
pub(crate) mod held;
mod lease;
pub(crate) mod queue;
pub(crate) mod report;
mod settlement;

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use fettle_model::task::TaskOutcome;
use fettle_store::{
    StoreError,
    change::Change,
    context::Context,
    id::{NodeId, TaskId},
    task::{Extended, HeldTask, Lease, LeaseKey, OpenTasks, ReadyTask, Report, Resumed, TaskStore, Verdict, Wanted},
};
use fettle_store_rows::task::Fence;
use jiff::Timestamp;
use serde_json::Value;

use crate::{SqliteStore, error::unavailable, row};

#[async_trait]
impl TaskStore for SqliteStore {
    async fn lease_tasks(
        &self,
        node_id: NodeId,
        wanted: Wanted,
        acknowledge_by: Timestamp,
        context: Context,
    ) -> Result<Vec<Lease>, StoreError> {
        // Most wake-ups find nothing; a look costs less than a turn at the writer.
        let mut reader = self.readers.take("lease_tasks").await?;
        if wanted.most() == 0 || !lease::any_ready(&mut reader, node_id).await? {
            return Ok(Vec::new());
        }
        drop(reader);
        self.writer
            .run("lease_tasks", move |unit| {
                Box::pin(async move { lease::lease(unit, node_id, wanted, acknowledge_by, &context).await })
            })
            .await
    }

    async fn ready_tasks(&self, node_id: NodeId) -> Result<Vec<ReadyTask>, StoreError> {
        let mut reader = self.readers.take("ready_tasks").await?;
        queue::ready_tasks(&mut reader, node_id).await
    }

    async fn resume_leases(
        &self,
        node_id: NodeId,
        held: Vec<TaskId>,
        deadline: Timestamp,
        context: Context,
    ) -> Result<Resumed, StoreError> {
        let most = self.most_leases.load(Ordering::Relaxed);
        self.writer
            .run("resume_leases", move |unit| {
                Box::pin(async move { held::resume(unit, node_id, &held, (deadline, most), &context).await })
            })
            .await
    }

    async fn acknowledge_lease(
        &self,
        lease: LeaseKey,
        deadline: Timestamp,
        context: Context,
    ) -> Result<Verdict, StoreError> {
        Ok(self.extend_lease(lease, deadline, context).await?.verdict)
    }

    async fn apply_reports(
        &self,
        reports: Vec<Report>,
        context: Context,
    ) -> Result<Vec<Result<Verdict, StoreError>>, StoreError> {
        self.writer.run_together(&self.reports, report::Told { reports, context }).await
    }

    async fn extend_lease(
        &self,
        lease: LeaseKey,
        deadline: Timestamp,
        context: Context,
    ) -> Result<Extended, StoreError> {
        self.writer.run_together(&self.extensions, held::Hold { lease, deadline, at: context.at }).await
    }

    async fn finish_task(
        &self,
        lease: LeaseKey,
        outcome: TaskOutcome,
        context: Context,
    ) -> Result<Verdict, StoreError> {
        self.writer.run_together(&self.endings, finish::Told { lease, outcome, context }).await
    }

    async fn held_task(&self, lease: LeaseKey) -> Result<Option<HeldTask>, StoreError> {
        let found = held::look(&mut *self.readers.take("held_task").await?, lease.task_id).await?;
        found.filter(|held| held.fence(&lease) == Fence::Current).map(|held| held.task()).transpose()
    }

    async fn record_credential(
        &self,
        lease: LeaseKey,
        details: Value,
        context: Context,
    ) -> Result<Verdict, StoreError> {
        self.writer
            .run("record_credential", move |unit| {
                Box::pin(async move { held::record_credential(unit, &lease, details, &context).await })
            })
            .await
    }

    async fn expire_leases(&self, context: Context) -> Result<u64, StoreError> {
        let most = self.most_leases.load(Ordering::Relaxed);
        self.writer
            .run("expire_leases", move |unit| Box::pin(async move { expire::expire(unit, most, &context).await }))
            .await
    }

    fn bound_leases(&self, most: u32) {
        self.most_leases.store(most.max(1), Ordering::Relaxed);
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
            .fetch_one(&mut *self.readers.take("next_lease_deadline").await?)
            .await
            .map_err(unavailable("next_lease_deadline"))?;
        row::optional_time("task", earliest)
    }

    async fn open_tasks(&self) -> Result<OpenTasks, StoreError> {
        let (ready, leased): (i64, i64) = sqlx::query_as(
            "SELECT coalesce(sum(status = 'ready'), 0), coalesce(sum(status = 'leased'), 0)
             FROM tasks WHERE status IN ('ready', 'leased')",
        )
        .fetch_one(&mut *self.readers.take("open_tasks").await?)
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
        .fetch_all(&mut *self.readers.take("cancel_requests").await?)
        .await
        .map_err(unavailable("cancel_requests"))?;
        rows.iter().map(|(id,)| row::parse("task", id)).collect()
    }
}
