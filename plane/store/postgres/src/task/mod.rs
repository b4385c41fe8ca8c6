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

pub(crate) use self::held::subject;
use crate::{
    PostgresStore, row,
    task::held::Held,
    unit::{Asking, Unit},
};

async fn spare(unit: &mut Unit, until: Timestamp) -> Result<(), StoreError> {
    // In one order, so that two planes that start at once do not wait for each other.
    unit.execute(
        "WITH due AS (
             SELECT task_id FROM tasks WHERE status = 'leased' AND deadline < $1 ORDER BY task_id FOR NO KEY UPDATE
         )
         UPDATE tasks SET deadline = greatest(deadline, $1) FROM due WHERE tasks.task_id = due.task_id",
        |query| query.bind(until.as_millisecond()),
    )
    .await?;
    unit.announce_here(Change::Lease);
    Ok(())
}

#[async_trait]
impl TaskStore for PostgresStore {
    async fn lease_tasks(
        &self,
        node_id: NodeId,
        wanted: Wanted,
        acknowledge_by: Timestamp,
        context: Context,
    ) -> Result<Vec<Lease>, StoreError> {
        // Most wake-ups find nothing; a look costs less than a turn at the writer.
        let ready = "SELECT 1::bigint FROM tasks WHERE node_id = $1 AND status = 'ready' LIMIT 1";
        let bind = |query: Asking<(i64,)>| query.bind(node_id.to_string());
        if wanted.most() == 0 || self.reader.one("lease_tasks", ready, bind).await?.is_none() {
            return Ok(Vec::new());
        }
        self.writer
            .run(
                "lease_tasks",
                (node_id, wanted, acknowledge_by, context),
                |unit, (node_id, wanted, acknowledge_by, context)| {
                    Box::pin(lease::lease(unit, *node_id, *wanted, *acknowledge_by, context))
                },
            )
            .await
    }

    async fn ready_tasks(&self, node_id: NodeId) -> Result<Vec<ReadyTask>, StoreError> {
        queue::ready_tasks(&self.reader, node_id).await
    }

    async fn resume_leases(
        &self,
        node_id: NodeId,
        held: Vec<TaskId>,
        deadline: Timestamp,
        context: Context,
    ) -> Result<Resumed, StoreError> {
        let bounds = (deadline, self.most_leases.load(Ordering::Relaxed));
        self.writer
            .run("resume_leases", (node_id, held, bounds, context), |unit, (node_id, held, bounds, context)| {
                Box::pin(held::resume(unit, *node_id, held, *bounds, context))
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
        let bind = |query: Asking<Held>| query.bind(vec![lease.task_id.to_string()]);
        let found = self.reader.one("held_task", held::LOOK, bind).await?;
        found.filter(|held| held.fence(&lease) == Fence::Current).map(|held| held.task()).transpose()
    }

    async fn record_credential(
        &self,
        lease: LeaseKey,
        details: Value,
        context: Context,
    ) -> Result<Verdict, StoreError> {
        self.writer
            .run("record_credential", (lease, details, context), |unit, (lease, details, context)| {
                Box::pin(held::record_credential(unit, lease, details, context))
            })
            .await
    }

    async fn expire_leases(&self, context: Context) -> Result<u64, StoreError> {
        let most = self.most_leases.load(Ordering::Relaxed);
        self.writer
            .run("expire_leases", (most, context), |unit, (most, context)| {
                Box::pin(expire::expire(unit, *most, context))
            })
            .await
    }

    fn bound_leases(&self, most: u32) {
        self.most_leases.store(most.max(1), Ordering::Relaxed);
    }

    async fn spare_leases(&self, until: Timestamp) -> Result<(), StoreError> {
        self.writer.run("spare_leases", until, |unit, until| Box::pin(spare(unit, *until))).await
    }

    async fn next_lease_deadline(&self) -> Result<Option<Timestamp>, StoreError> {
        let sql = "SELECT min(deadline) FROM tasks WHERE status = 'leased'";
        let found = self.reader.one::<(Option<i64>,)>("next_lease_deadline", sql, |query| query).await?;
        row::optional_time("task", found.and_then(|(earliest,)| earliest))
    }

    async fn open_tasks(&self) -> Result<OpenTasks, StoreError> {
        // Each counted in its own index.
        let sql = "SELECT (SELECT count(*) FROM tasks WHERE status = 'ready'),
                       (SELECT count(*) FROM tasks WHERE status = 'leased')";
        let found = self.reader.one::<(i64, i64)>("open_tasks", sql, |query| query).await?;
        let (ready, leased) = found.unwrap_or_default();
        Ok(OpenTasks { ready: row::number("task", ready)?, leased: row::number("task", leased)? })
    }

    async fn cancel_requests(&self, node_id: NodeId) -> Result<Vec<TaskId>, StoreError> {
        let sql = "SELECT task_id FROM tasks WHERE node_id = $1 AND status = 'leased' AND cancel_requested = 1
                   ORDER BY task_id";
        let bind = |query: Asking<(String,)>| query.bind(node_id.to_string());
        let rows = self.reader.all("cancel_requests", sql, bind).await?;
        rows.iter().map(|(id,)| row::parse("task", id)).collect()
    }
}
