//! The audit trail: one row per mutation, and per refused one.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{StoreError, context::Context, page::Page};

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// Grows.
    pub sequence: i64,
    /// When.
    pub at: Timestamp,
    /// Who, as `kind:id`.
    pub actor: String,
    /// Where: `platform`, or `org/project`.
    pub scope: String,
    /// What, dotted: `operation.create`.
    pub action: String,
    /// On what: `operations/<id>`.
    pub resource_name: String,
    /// `ok`, or the code of the refusal.
    pub result: String,
    /// Follows the request.
    pub correlation_id: String,
}

/// A mutation that was refused before it reached its verb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Where.
    pub scope: String,
    /// What was tried.
    pub action: &'static str,
    /// On what.
    pub resource_name: String,
    /// Stable code of the reason.
    pub code: &'static str,
}

/// The audit trail.
#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Rows, the oldest first.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn audit(&self, page: Page<i64>) -> Result<Vec<AuditRecord>, StoreError>;

    /// Writes down a refusal.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn record_refusal(&self, refusal: Refusal, context: Context) -> Result<(), StoreError>;
}
