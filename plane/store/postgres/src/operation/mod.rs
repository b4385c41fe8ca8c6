//! Operations and their steps.

mod cancel;
mod create;
pub(crate) mod ending;

use async_trait::async_trait;
use fettle_model::{name::Label, operation::OperationStatus};
use fettle_store::{
    StoreError,
    context::Context,
    id::OperationId,
    operation::{Created, NewOperation, Operation, OperationStore, Step},
    page::Page,
};
use fettle_store_rows::operation::{OperationRow, StepRow};

use crate::{PostgresStore, journal::clean, unit::Asking};

/// Statements for operations.
macro_rules! operations {
    ($rest:literal) => {
        concat!(
            "SELECT operation_id, operation_type, version, org_id, project_id, requested_by_user_id, target_selector,
                 idempotency_key, request_digest, correlation_id, trigger_source, linked_node_id, sources, inputs,
                 plan_digest, total_steps, status, failure, created_at, started_at, finished_at, cancel_requested_at
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
        let sql = operations!("WHERE operation_id = $1 AND project_id = $2");
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
        let sql = operations!(
            "WHERE project_id = $1 AND ($2 IS NULL OR operation_id < $2) AND ($3 IS NULL OR status = $3)
             ORDER BY operation_id DESC LIMIT $4"
        );
        let bind = |query: Asking<OperationRow>| {
            query
                .bind(project.to_string())
                .bind(page.after.map(|id| id.to_string()))
                .bind(status.map(OperationStatus::name))
                .bind(i64::from(page.size))
        };
        let rows = self.reader.all("operations", sql, bind).await?;
        rows.into_iter().map(OperationRow::operation).collect()
    }

    async fn steps(&self, id: OperationId) -> Result<Vec<Step>, StoreError> {
        let sql = "SELECT task_id, step_id, step_index, kind, component, needs, status, attempt_number, started_at,
                       percent, message, last_log, outcome, duration_ms, finished_at
                   FROM operation_steps WHERE operation_id = $1 ORDER BY step_index, task_id";
        let rows = self.reader.all("steps", sql, |query: Asking<StepRow>| query.bind(id.to_string())).await?;
        rows.into_iter().map(StepRow::step).collect()
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
