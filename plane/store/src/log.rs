//! Log lines of steps.

use async_trait::async_trait;
use fettle_model::{name::StepId, task::LogLine};

use crate::{StoreError, id::OperationId, page::Page};

/// One stored line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// Grows; the cursor of the list.
    pub sequence: i64,
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
    /// Lines of an operation in the order they were stored.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn logs(
        &self,
        operation: OperationId,
        step: Option<&StepId>,
        page: Page<i64>,
    ) -> Result<Vec<LogRecord>, StoreError>;
}
