//! Operations and their steps.

mod cancel;
mod create;
mod deadline;
mod decision;
pub(crate) mod ending;
mod inquiry;
mod retry;
mod waiting;

use async_trait::async_trait;
use fettle_model::{name::Label, operation::OperationStatus};
use fettle_store::{
    StoreError,
    context::Context,
    id::OperationId,
    operation::{Created, Decision, NewInquiry, NewOperation, NewRun, NodeTask, Operation, OperationStore, Step},
    page::Page,
};
use fettle_store_rows::operation::{OperationRow, StepRow, before};

use jiff::Timestamp;

use crate::{PostgresStore, journal::clean, row, unit::Asking};

/// Statements for operations.
macro_rules! operations {
    ($rest:literal) => {
        concat!(
            "SELECT operation_id, operation_type, version, org_id, project_id, requested_by_user_id, target_selector,
                 idempotency_key, request_digest, correlation_id, trigger_source, linked_node_id, sources, inputs,
                 plan_digest, total_steps, status, failure, created_at, started_at, finished_at, cancel_requested_at,
                 linked_allocation_id, total_nodes, run, priority, deadline, max_parallel_nodes, failure_budget,
                 max_concurrency_global, max_concurrency_tenant, max_concurrency_project, requires
             FROM operations ",
            $rest
        )
    };
}
pub(crate) use operations;

#[async_trait]
impl OperationStore for PostgresStore {
    async fn create_operation(&self, operation: NewOperation, context: Context) -> Result<Created, StoreError> {
        self.writer
            .run("create_operation", (operation, context), |unit, (operation, context)| {
                Box::pin(create::create(unit, operation, context))
            })
            .await
    }

    async fn operation(&self, project: &Label, id: OperationId) -> Result<Option<Operation>, StoreError> {
        let bind = |query: Asking<OperationRow>| query.bind(id.to_string()).bind(project.to_string());
        // Found by its key first: the index of the project's list has both columns too, and all that is between them.
        let sql = concat!(
            "SELECT * FROM (",
            operations!("WHERE operation_id = $1 OFFSET 0"),
            ") AS found WHERE project_id = $2"
        );
        let found = self.reader.one("operation", sql, bind).await?;
        found.map(OperationRow::operation).transpose()
    }

    async fn operation_by_key(&self, project: &Label, key: &str) -> Result<Option<Operation>, StoreError> {
        let bind = |query: Asking<OperationRow>| query.bind(project.to_string()).bind(clean(key));
        let sql = operations!("WHERE project_id = $1 AND idempotency_key = $2");
        let found = self.reader.one("operation_by_key", sql, bind).await?;
        found.map(OperationRow::operation).transpose()
    }

    async fn operations(
        &self,
        project: &Label,
        status: Option<OperationStatus>,
        page: Page<OperationId>,
    ) -> Result<Vec<Operation>, StoreError> {
        // One statement for each, so that either walks an index from the cursor on.
        let sql = match status {
            None => operations!(
                "WHERE project_id = $1 AND operation_id < $2 AND $3::text IS NULL ORDER BY operation_id DESC LIMIT $4"
            ),
            Some(_) => operations!(
                "WHERE project_id = $1 AND operation_id < $2 AND status = $3 ORDER BY operation_id DESC LIMIT $4"
            ),
        };
        let bind = |query: Asking<OperationRow>| {
            query
                .bind(project.to_string())
                .bind(before(page.after))
                .bind(status.map(OperationStatus::name))
                .bind(i64::from(page.size))
        };
        let rows = self.reader.all("operations", sql, bind).await?;
        rows.into_iter().map(OperationRow::operation).collect()
    }

    async fn steps(&self, id: OperationId) -> Result<Vec<Step>, StoreError> {
        let sql = "SELECT task_id, tasks.node_id AS node_id, step_id, step_index, kind, component, needs,
                       operation_steps.status AS status, attempt_number, started_at, percent, message, last_log, outcome,
                       duration_ms, finished_at, settlement
                   FROM tasks JOIN operation_steps USING (task_id)
                   WHERE tasks.operation_id = $1 AND superseded = 0 ORDER BY tasks.node_id, step_index";
        let rows = self.reader.all("steps", sql, |query: Asking<StepRow>| query.bind(id.to_string())).await?;
        rows.into_iter().map(StepRow::step).collect()
    }

    async fn node_tasks(&self, id: OperationId, heard_since: Timestamp) -> Result<Vec<NodeTask>, StoreError> {
        waiting::node_tasks(&self.reader, id, heard_since).await
    }

    async fn retry_operation(
        &self,
        project: &Label,
        id: OperationId,
        run: NewRun,
        context: Context,
    ) -> Result<Operation, StoreError> {
        self.writer
            .run("retry_operation", (project.clone(), id, run, context), |unit, (project, id, run, context)| {
                Box::pin(retry::retry(unit, project, *id, run, context))
            })
            .await
    }

    async fn inquire(
        &self,
        project: &Label,
        id: OperationId,
        inquiry: NewInquiry,
        context: Context,
    ) -> Result<Operation, StoreError> {
        self.writer
            .run("inquire", (project.clone(), id, inquiry, context), |unit, (project, id, inquiry, context)| {
                Box::pin(inquiry::inquire(unit, project, *id, inquiry, context))
            })
            .await
    }

    async fn decide(
        &self,
        project: &Label,
        id: OperationId,
        decision: Decision,
        run: Option<NewRun>,
        context: Context,
    ) -> Result<Operation, StoreError> {
        self.writer
            .run(
                "decide",
                (project.clone(), id, decision, run, context),
                |unit, (project, id, decision, run, context)| {
                    Box::pin(decision::decide(unit, (project, *id), decision, run.as_ref(), context))
                },
            )
            .await
    }

    async fn expire_operations(&self, context: Context) -> Result<u64, StoreError> {
        self.writer.run("expire_operations", context, |unit, context| Box::pin(deadline::expire(unit, context))).await
    }

    async fn next_operation_deadline(&self) -> Result<Option<Timestamp>, StoreError> {
        let sql = "SELECT min(deadline) FROM operations
                   WHERE deadline IS NOT NULL AND finished_at IS NULL AND NOT deadline_passed";
        let found = self.reader.one::<(Option<i64>,)>("next_operation_deadline", sql, |query| query).await?;
        row::optional_time("operation", found.and_then(|(earliest,)| earliest))
    }

    async fn cancel_operation(
        &self,
        project: &Label,
        id: OperationId,
        context: Context,
    ) -> Result<Operation, StoreError> {
        self.writer
            .run("cancel_operation", (project.clone(), id, context), |unit, (project, id, context)| {
                Box::pin(cancel::cancel(unit, project, *id, context))
            })
            .await
    }
}
