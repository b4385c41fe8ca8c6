//! What is removed when it is old enough. Nothing here touches the audit trail.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{StoreError, context::Context, id::OperationId, webhook::Claim};

/// An operation that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Which.
    pub operation: OperationId,
    /// Since when.
    pub at: Timestamp,
}

/// Removing. Each verb takes a bounded part, so that no other write waits long.
#[async_trait]
pub trait RetentionStore: Send + Sync {
    /// Takes or keeps a chore that one plane does for all, until the claim ends. Answers whether it is the caller's.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn claim_chore(&self, name: &'static str, claim: Claim, context: Context) -> Result<bool, StoreError>;

    /// Operations that ended at that time or before, the oldest end first: those that failed, or the others.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn ended_operations(
        &self,
        failed: bool,
        before: Timestamp,
        after: Option<Ended>,
        most: u32,
    ) -> Result<Vec<Ended>, StoreError>;

    /// Removes log lines and segments of operations, at most that many of each. Answers how many.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn remove_logs(&self, operations: Vec<OperationId>, most: u32) -> Result<u64, StoreError>;

    /// Removes events of operations, at most that many. Answers how many.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn remove_events(&self, operations: Vec<OperationId>, most: u32) -> Result<u64, StoreError>;

    /// Removes those of the operations that ended at that time or before, with all that is of them. Answers how many.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn remove_operations(&self, operations: Vec<OperationId>, before: Timestamp) -> Result<u64, StoreError>;

    /// Removes dead letters that were given up at that time or before, at most that many. Answers how many.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn remove_dead_letters(&self, before: Timestamp, most: u32) -> Result<u64, StoreError>;
}
