//! The outbox: events written with the change they tell of.

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use crate::{StoreError, id::OperationId, page::Page};

/// What an event tells (seed 001, 12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// It was accepted.
    Requested,
    /// A step moved.
    Progress,
    /// It succeeded.
    Completed,
    /// It failed.
    Failed,
    /// It was canceled.
    Canceled,
}

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Grows; consumers resume after the last one they saw.
    pub sequence: i64,
    /// What it tells.
    pub kind: EventKind,
    /// The operation.
    pub operation_id: OperationId,
    /// When.
    pub at: Timestamp,
    /// The rest, by kind.
    pub payload: Value,
}

impl EventKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Requested, Self::Progress, Self::Completed, Self::Failed, Self::Canceled];

    /// The name in documents and databases.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requested => "operation.requested",
            Self::Progress => "operation.progress",
            Self::Completed => "operation.completed",
            Self::Failed => "operation.failed",
            Self::Canceled => "operation.canceled",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether no event of the operation follows.
    #[must_use]
    pub const fn is_last(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled)
    }
}

/// Events.
#[async_trait]
pub trait EventStore: Send + Sync {
    /// Events of an operation, the oldest first.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn events(&self, operation: OperationId, page: Page<i64>) -> Result<Vec<Event>, StoreError>;

    /// Events of everybody, the oldest first. None is ever added before one that was answered.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn outbox(&self, page: Page<i64>) -> Result<Vec<Event>, StoreError>;

    /// The number of the newest event; 0 when there is none.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn newest_event(&self) -> Result<i64, StoreError>;
}
