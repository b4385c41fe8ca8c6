//! Log lines of steps.

use async_trait::async_trait;
use fettle_model::{name::StepId, task::LogLine};

use crate::{
    StoreError,
    id::{NodeId, OperationId},
    page::Page,
};

/// One stored line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// Grows; the cursor of the list.
    pub sequence: i64,
    /// The node it was written on.
    pub node_id: NodeId,
    /// The step that wrote it.
    pub step_id: StepId,
    /// The attempt that wrote it.
    pub attempt: u32,
    /// The line.
    pub line: LogLine,
}

/// Logs.
#[async_trait]
pub trait LogStore: Send + Sync {
    /// Lines of an operation, or of one node or step of it, in the order they were stored.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn logs(
        &self,
        operation: OperationId,
        node: Option<NodeId>,
        step: Option<&StepId>,
        page: Page<i64>,
    ) -> Result<Vec<LogRecord>, StoreError>;
}
