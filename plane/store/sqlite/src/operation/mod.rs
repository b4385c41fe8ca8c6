//! Operations and their steps.

mod cancel;
mod create;
pub(crate) mod ending;
mod read;
pub(crate) mod subject;

use async_trait::async_trait;
use fettle_model::{name::Label, operation::OperationStatus};
use fettle_store::{
    StoreError,
    context::Context,
    id::OperationId,
    operation::{Created, NewOperation, Operation, OperationStore, Step},
    page::Page,
};

use crate::{SqliteStore, error::unavailable};

#[async_trait]
impl OperationStore for SqliteStore {
    async fn create_operation(&self, operation: NewOperation, context: Context) -> Result<Created, StoreError> {
        self.writer
            .run("create_operation", move |unit| {
                Box::pin(async move { create::create(unit, &operation, &context).await })
            })
            .await
    }

    async fn operation(&self, project: &Label, id: OperationId) -> Result<Option<Operation>, StoreError> {
        let mut reader = self.readers.acquire().await.map_err(unavailable("operation"))?;
        read::by_id(&mut reader, project, id).await
    }

    async fn operation_by_key(&self, project: &Label, key: &str) -> Result<Option<Operation>, StoreError> {
        let mut reader = self.readers.acquire().await.map_err(unavailable("operation_by_key"))?;
        read::by_key(&mut reader, project, key).await
    }

    async fn operations(
        &self,
        project: &Label,
        status: Option<OperationStatus>,
        page: Page<OperationId>,
    ) -> Result<Vec<Operation>, StoreError> {
        let mut reader = self.readers.acquire().await.map_err(unavailable("operations"))?;
        read::list(&mut reader, project, status, page).await
    }

    async fn steps(&self, id: OperationId) -> Result<Vec<Step>, StoreError> {
        let mut reader = self.readers.acquire().await.map_err(unavailable("steps"))?;
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
}
