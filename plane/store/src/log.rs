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

/// How large segments of logs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentBounds {
    /// Lines of a segment at most.
    pub lines: u32,
    /// Bytes of its lines at most, before they are compressed. One line always fits.
    pub bytes: i64,
    /// Bytes that are kept of what one node writes in one operation.
    pub node_bytes: i64,
}

/// A segment that was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedSegment {
    /// Lines in it.
    pub lines: u64,
    /// Lines that were dropped.
    pub dropped: u64,
}

impl Default for SegmentBounds {
    fn default() -> Self {
        Self { lines: 1_000, bytes: 256 << 10, node_bytes: 16 << 20 }
    }
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

    /// Operations of which a segment can be closed: there are lines for a whole one, or it is over.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn logs_to_close(&self, bounds: SegmentBounds, most: u32) -> Result<Vec<OperationId>, StoreError>;

    /// Compresses the oldest lines of an operation that are in no segment yet. Which lines there are does not change,
    /// but for what a node wrote over its bound. None when there are no lines.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn close_log_segment(
        &self,
        operation: OperationId,
        bounds: SegmentBounds,
    ) -> Result<Option<ClosedSegment>, StoreError>;
}
