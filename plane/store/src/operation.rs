//! Operations and their steps.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use fettle_model::{
    digest::Digest,
    failure::Failure,
    name::{Label, OperationType, StepId, StepKind, Version},
    operation::{OperationStatus, StepOutcome, StepStatus},
    plan::{Plan, Sources},
    reference::Reference,
};
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    StoreError,
    context::Context,
    id::{NodeId, OperationId, TaskId},
    page::Page,
    project::Project,
};

/// An operation to be created, with its plan and its task.
#[derive(Clone, Debug)]
pub struct NewOperation {
    /// Its id.
    pub id: OperationId,
    /// The id of its task.
    pub task_id: TaskId,
    /// Who owns it.
    pub project: Project,
    /// What was asked for, as it was written.
    pub target_selector: Value,
    /// What that resolved to.
    pub node_id: NodeId,
    /// Makes a repeated request the same request.
    pub idempotency_key: Option<String>,
    /// Digest of the request: the same key with another one is refused.
    pub request_digest: Digest,
    /// The plan.
    pub plan: Arc<Plan>,
    /// Its digest.
    pub plan_digest: Digest,
}

/// An operation (seed 001, 4.2 and 11).
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// Its id.
    pub id: OperationId,
    /// Its type.
    pub operation_type: OperationType,
    /// The version of the type.
    pub version: Version,
    /// Who owns it.
    pub project: Project,
    /// Who asked for it.
    pub requested_by: String,
    /// What was asked for.
    pub target_selector: Value,
    /// The node it is for.
    pub node_id: NodeId,
    /// The key it was requested with.
    pub idempotency_key: Option<String>,
    /// Digest of the request.
    pub request_digest: Digest,
    /// Follows it everywhere.
    pub correlation_id: String,
    /// What caused it.
    pub trigger_source: String,
    /// The signed documents.
    pub sources: Sources,
    /// The validated inputs.
    pub inputs: Value,
    /// Digest of the plan.
    pub plan_digest: Digest,
    /// How many steps.
    pub total_steps: u32,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// Where it is.
    pub state: OperationState,
    /// When somebody asked to cancel it.
    pub cancel_requested_at: Option<Timestamp>,
}

/// Where an operation is, with what is known there.
#[derive(Clone, Debug, PartialEq)]
pub enum OperationState {
    /// Accepted, not started.
    Queued,
    /// A node has taken it.
    Running {
        /// When.
        started_at: Timestamp,
    },
    /// It is over.
    Over {
        /// When it was taken; none when it never was.
        started_at: Option<Timestamp>,
        /// When it ended.
        finished_at: Timestamp,
        /// How.
        ending: Ending,
    },
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// Every step succeeded.
    Succeeded,
    /// It failed for good.
    Failed(Failure),
    /// It was canceled.
    Canceled,
}

/// A step of an operation on one node.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The task it belongs to.
    pub task_id: TaskId,
    /// Its name.
    pub id: StepId,
    /// Its place in the plan, from 0.
    pub index: u32,
    /// What it does.
    pub kind: StepKind,
    /// The component.
    pub component: Reference,
    /// Steps before it.
    pub needs: BTreeSet<StepId>,
    /// The latest attempt; 0 when none was started.
    pub attempt: u32,
    /// When the latest attempt started, by the node's clock.
    pub started_at: Option<Timestamp>,
    /// How far the latest attempt is, 0 to 100, when it says so.
    pub percent: Option<u8>,
    /// What it is doing.
    pub message: Option<String>,
    /// Its last log line.
    pub last_log: Option<String>,
    /// Where it is.
    pub state: StepState,
}

/// Where a step is, with what is known there.
#[derive(Clone, Debug, PartialEq)]
pub enum StepState {
    /// Waits for what it needs.
    Pending,
    /// An attempt runs, or the next one is waited for.
    Running,
    /// It is over.
    Over {
        /// How.
        outcome: StepOutcome,
        /// Milliseconds of the last attempt.
        duration_ms: u64,
        /// When, by the node's clock.
        finished_at: Timestamp,
    },
}

/// What creating did.
#[derive(Clone, Debug, PartialEq)]
pub enum Created {
    /// It was not there.
    New(Operation),
    /// The key was used before for the same request.
    Repeated(Operation),
}

impl OperationState {
    /// The state alone.
    #[must_use]
    pub const fn status(&self) -> OperationStatus {
        match self {
            Self::Queued => OperationStatus::Queued,
            Self::Running { .. } => OperationStatus::Running,
            Self::Over { ending: Ending::Succeeded, .. } => OperationStatus::Succeeded,
            Self::Over { ending: Ending::Failed(_), .. } => OperationStatus::Failed,
            Self::Over { ending: Ending::Canceled, .. } => OperationStatus::Canceled,
        }
    }
}

impl StepState {
    /// The state alone.
    #[must_use]
    pub const fn status(&self) -> StepStatus {
        match self {
            Self::Pending => StepStatus::Pending,
            Self::Running => StepStatus::Running,
            Self::Over { outcome, .. } => outcome.status(),
        }
    }
}

/// Operations.
#[async_trait]
pub trait OperationStore: Send + Sync {
    /// Creates an operation with its steps, its task and the event `operation.requested`.
    ///
    /// # Errors
    /// `Conflict` when the key was used before for another request.
    async fn create_operation(&self, operation: NewOperation, context: Context) -> Result<Created, StoreError>;

    /// One operation of a project.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn operation(&self, project: &Label, id: OperationId) -> Result<Option<Operation>, StoreError>;

    /// The operation that was requested with this key.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn operation_by_key(&self, project: &Label, key: &str) -> Result<Option<Operation>, StoreError>;

    /// Operations of a project, the newest first.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn operations(
        &self,
        project: &Label,
        status: Option<OperationStatus>,
        page: Page<OperationId>,
    ) -> Result<Vec<Operation>, StoreError>;

    /// The steps of an operation, in the order of the plan.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn steps(&self, id: OperationId) -> Result<Vec<Step>, StoreError>;

    /// Cancels: at once what no node has taken, else by asking the node. Asking again changes nothing.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when it has succeeded or failed.
    async fn cancel_operation(
        &self,
        project: &Label,
        id: OperationId,
        context: Context,
    ) -> Result<Operation, StoreError>;
}
