//! Operations and their steps.

mod cancel;
pub(crate) mod create;
mod deadline;
mod decision;
pub(crate) mod ending;
mod inquiry;
mod read;
mod retry;
pub(crate) mod subject;
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

use jiff::Timestamp;

use crate::{SqliteStore, error::unavailable, row};

#[async_trait]
impl OperationStore for SqliteStore {
    async fn create_operation(&self, operation: NewOperation, context: Context) -> Result<Created, StoreError> {
        self.writer.run_together(&self.creations, create::Asked { operation, context }).await
    }

    async fn operation(&self, project: &Label, id: OperationId) -> Result<Option<Operation>, StoreError> {
        let mut reader = self.readers.take("operation").await?;
        read::by_id(&mut reader, project, id).await
    }

    async fn operation_by_key(&self, project: &Label, key: &str) -> Result<Option<Operation>, StoreError> {
        let mut reader = self.readers.take("operation_by_key").await?;
        read::by_key(&mut reader, project, key).await
    }

    async fn operations(
        &self,
        project: &Label,
        status: Option<OperationStatus>,
        page: Page<OperationId>,
    ) -> Result<Vec<Operation>, StoreError> {
        let mut reader = self.readers.take("operations").await?;
        read::list(&mut reader, project, status, page).await
    }

    async fn steps(&self, id: OperationId) -> Result<Vec<Step>, StoreError> {
        let mut reader = self.readers.take("steps").await?;
        read::steps(&mut reader, id).await
    }

    async fn cancel_operation(
        &self,
        project: &Label,
        id: OperationId,
        context: Context,
    ) -> Result<Operation, StoreError> {
        let project = project.clone();
        self.writer
            .run("cancel_operation", move |unit| {
                Box::pin(async move { cancel::cancel(unit, &project, id, &context).await })
            })
            .await
    }

    async fn node_tasks(&self, id: OperationId, heard_since: Timestamp) -> Result<Vec<NodeTask>, StoreError> {
        let mut reader = self.readers.take("node_tasks").await?;
        waiting::node_tasks(&mut reader, id, heard_since).await
    }

    async fn retry_operation(
        &self,
        project: &Label,
        id: OperationId,
        run: NewRun,
        context: Context,
    ) -> Result<Operation, StoreError> {
        let project = project.clone();
        self.writer
            .run("retry_operation", move |unit| {
                Box::pin(async move { retry::retry(unit, &project, id, &run, &context).await })
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
        let project = project.clone();
        self.writer
            .run("inquire", move |unit| {
                Box::pin(async move { inquiry::inquire(unit, &project, id, &inquiry, &context).await })
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
        let project = project.clone();
        self.writer
            .run("decide", move |unit| {
                Box::pin(async move { decision::decide(unit, (&project, id), &decision, run.as_ref(), &context).await })
            })
            .await
    }

    async fn expire_operations(&self, context: Context) -> Result<u64, StoreError> {
        self.writer
            .run("expire_operations", move |unit| Box::pin(async move { deadline::expire(unit, &context).await }))
            .await
    }

    async fn next_operation_deadline(&self) -> Result<Option<Timestamp>, StoreError> {
        let next: Option<i64> = sqlx::query_scalar(
            "SELECT min(deadline) FROM operations
             WHERE deadline IS NOT NULL AND finished_at IS NULL AND deadline_passed = 0",
        )
        .fetch_one(&mut *self.readers.take("next_operation_deadline").await?)
        .await
        .map_err(unavailable("next_operation_deadline"))?;
        row::optional_time("operation", next)
    }
}
