//! Tasks and leases.

pub(crate) mod admission;
mod expire;
mod finish;
mod held;
mod lease;
pub(crate) mod queue;
mod report;

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

pub(crate) use self::held::subject;
use crate::{
    PostgresStore, row,
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
        limit: u32,
        acknowledge_by: Timestamp,
        context: Context,
    ) -> Result<Vec<Lease>, StoreError> {
        // Most wake-ups find nothing; a look costs less than a turn at the writer.
        let ready = "SELECT 1::bigint FROM tasks WHERE node_id = $1 AND status = 'ready' LIMIT 1";
        let bind = |query: Asking<(i64,)>| query.bind(node_id.to_string());
        if limit == 0 || self.reader.one("lease_tasks", ready, bind).await?.is_none() {
            return Ok(Vec::new());
        }
        self.writer
            .run(
                "lease_tasks",
                (node_id, limit, acknowledge_by, context),
                |unit, (node_id, limit, acknowledge_by, context)| {
                    Box::pin(lease::lease(unit, *node_id, *limit, *acknowledge_by, context))
                },
            )
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
            .run("resume_leases", (node_id, held, deadline, context), |unit, (node_id, held, deadline, context)| {
                Box::pin(held::resume(unit, *node_id, held, *deadline, context))
            })
            .await
    }

    async fn acknowledge_lease(
        &self,
        lease: LeaseKey,
        deadline: Timestamp,
        context: Context,
    ) -> Result<Verdict, StoreError> {
        let extended =
            self.writer.run("acknowledge_lease", (lease, deadline, context), |unit, (lease, until, context)| {
                Box::pin(held::extend(unit, *lease, *until, context))
            });
        Ok(extended.await?.verdict)
    }

    async fn apply_reports(
        &self,
        reports: Vec<Report>,
        context: Context,
    ) -> Result<Vec<Result<Verdict, StoreError>>, StoreError> {
        self.writer
            .run("apply_reports", (reports, context), |unit, (reports, context)| {
                Box::pin(report::apply_all(unit, reports, context))
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
            .run("extend_lease", (lease, deadline, context), |unit, (lease, deadline, context)| {
                Box::pin(held::extend(unit, *lease, *deadline, context))
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
            .run("finish_task", (lease, outcome, context), |unit, (lease, outcome, context)| {
                Box::pin(finish::finish(unit, *lease, outcome.clone(), context))
            })
            .await
    }

    async fn expire_leases(&self, context: Context) -> Result<u64, StoreError> {
        self.writer.run("expire_leases", context, |unit, context| Box::pin(expire::expire(unit, context))).await
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
        let sql = "SELECT count(*) FILTER (WHERE status = 'ready'), count(*) FILTER (WHERE status = 'leased')
                   FROM tasks WHERE status IN ('ready', 'leased')";
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
