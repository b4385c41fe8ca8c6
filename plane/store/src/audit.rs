//! The audit trail: one row per mutation, and per refused one.

use async_trait::async_trait;
use fettle_model::{denial::Denial, digest::Digest, name::StepId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{StoreError, context::Context, id::OperationId, page::Page};

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
    /// What the action says beyond that: of a denial, [`DeniedCall`].
    pub details: Option<Value>,
    /// What links it with the row before it ([`crate::chain`]); none for rows of versions without that.
    pub link: Option<Digest>,
}

/// The action of an audit row that says that a step was denied a call. Its result is the rule.
pub const STEP_DENIED: &str = "step.denied";

/// A capability call of a step that its host refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeniedCall {
    /// The step.
    pub step_id: StepId,
    /// 1 for the first.
    pub attempt: u32,
    /// The component that called.
    pub component: Digest,
    /// Which rule refused what.
    #[serde(flatten)]
    pub denial: Denial,
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
    /// What else there is to say of it.
    pub details: Option<Value>,
}

/// The audit trail.
#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Rows, the oldest first.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn audit(&self, page: Page<i64>) -> Result<Vec<AuditRecord>, StoreError>;

    /// What was denied to the steps of an operation, in the order it was reported.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn denied_calls(&self, operation: OperationId, page: Page<i64>)
    -> Result<Vec<(i64, DeniedCall)>, StoreError>;

    /// Writes down a refusal.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn record_refusal(&self, refusal: Refusal, context: Context) -> Result<(), StoreError>;
}
