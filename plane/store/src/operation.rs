//! Operations and their steps.

mod run;
mod step;
mod task;

use std::sync::Arc;

use async_trait::async_trait;
use fettle_model::{
    definition::Requirements,
    digest::Digest,
    failure::Failure,
    name::{Label, OperationType, Version},
    operation::OperationStatus,
    plan::{Plan, Sources},
};
use jiff::Timestamp;
use serde_json::Value;

pub use self::{
    run::{Decision, NewInquiry, NewRun},
    step::{Step, StepState},
    task::{NodeTask, TaskStatus, Wait},
};
use crate::{
    StoreError,
    context::Context,
    id::{NodeId, OperationId, TaskId},
    page::Page,
    project::Project,
};

/// An operation to be created, with its plan and its tasks.
#[derive(Clone, Debug)]
pub struct NewOperation {
    /// Its id.
    pub id: OperationId,
    /// One per node that the target selector resolved to; at least one.
    pub tasks: Vec<NewTask>,
    /// Who owns it.
    pub project: Project,
    /// What was asked for, as it was written.
    pub target_selector: Value,
    /// What caused it.
    pub trigger_source: TriggerSource,
    /// The allocation that it is for.
    pub linked_allocation_id: Option<String>,
    /// How it is carried out.
    pub terms: Terms,
    /// Makes a repeated request the same request.
    pub idempotency_key: Option<String>,
    /// Digest of the request: the same key with another one is refused.
    pub request_digest: Digest,
    /// The plan.
    pub plan: Arc<Plan>,
    /// Its digest.
    pub plan_digest: Digest,
    /// Where it continues in a trace (W3C `traceparent`).
    pub trace_parent: Option<String>,
    /// What policy decided about it, and by which rules.
    pub decision: Option<Value>,
}

/// A task to be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewTask {
    /// Its id.
    pub id: TaskId,
    /// The node it is for.
    pub node_id: NodeId,
}

/// What caused an operation (seed 001, 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerSource {
    /// An allocation is made ready.
    AllocationProvision,
    /// An allocation is given back.
    AllocationRelease,
    /// A platform administrator.
    Admin,
    /// A person or a program of a tenant.
    TenantRequest,
}

/// The priority of an operation that says none, between 0 and 9.
pub const DEFAULT_PRIORITY: u8 = 5;

/// How an operation is carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// 0 to 9; among the tasks of one organisation the higher goes first.
    pub priority: u8,
    /// When it must be over.
    pub deadline: Option<Timestamp>,
    /// How many nodes may work on it at once.
    pub max_parallel_nodes: Option<u32>,
    /// How many nodes may fail before no further node is started.
    pub failure_budget: Option<u32>,
    /// How many operations of its type may be under way at once.
    pub max_concurrency: Concurrency,
    /// What a node must have when the task is given to it.
    pub requires: Requirements,
}

/// How many operations of one type may be under way at once, in each scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Concurrency {
    /// Everywhere.
    pub global: Option<u32>,
    /// In the organisation.
    pub tenant: Option<u32>,
    /// In the project.
    pub project: Option<u32>,
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
    /// The node it is for, when it is for one.
    pub linked_node_id: Option<NodeId>,
    /// The allocation it is for.
    pub linked_allocation_id: Option<String>,
    /// How many nodes it is for.
    pub total_nodes: u32,
    /// How often it was started; grows with each retry.
    pub run: u32,
    /// How it is carried out.
    pub terms: Terms,
    /// The key it was requested with.
    pub idempotency_key: Option<String>,
    /// Digest of the request.
    pub request_digest: Digest,
    /// Follows it everywhere.
    pub correlation_id: String,
    /// What caused it.
    pub trigger_source: TriggerSource,
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

/// What creating did.
#[derive(Clone, Debug, PartialEq)]
pub enum Created {
    /// It was not there.
    New(Operation),
    /// The key was used before for the same request.
    Repeated(Operation),
}

impl TriggerSource {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::AllocationProvision, Self::AllocationRelease, Self::Admin, Self::TenantRequest];

    /// The name in documents and databases.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllocationProvision => "allocation_provision",
            Self::AllocationRelease => "allocation_release",
            Self::Admin => "admin",
            Self::TenantRequest => "tenant_request",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.name() == name)
    }
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            priority: DEFAULT_PRIORITY,
            deadline: None,
            max_parallel_nodes: None,
            failure_budget: None,
            max_concurrency: Concurrency::default(),
            requires: Requirements::default(),
        }
    }
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

/// Operations.
#[async_trait]
pub trait OperationStore: Send + Sync {
    /// Creates an operation with its steps, its tasks and the event `operation.requested`.
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

    /// The steps of the newest run of an operation: node after node, in the order of the plan.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn steps(&self, id: OperationId) -> Result<Vec<Step>, StoreError>;

    /// The newest run's task of each node, by the name of the node. A node counts as silent when nothing
    /// was heard of it since `heard_since`.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn node_tasks(&self, id: OperationId, heard_since: Timestamp) -> Result<Vec<NodeTask>, StoreError>;

    /// Starts an operation again that failed or was canceled, on the nodes where it did not succeed. Steps that
    /// succeeded are kept, with what they put out.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when it is not over, has succeeded, or a step's outcome is unknown and
    /// that is not accepted.
    async fn retry_operation(
        &self,
        project: &Label,
        id: OperationId,
        run: NewRun,
        context: Context,
    ) -> Result<Operation, StoreError>;

    /// Asks the nodes of an operation, in a run of its own, whether steps have happened of which nobody knows it.
    /// Nothing is changed on a node; what a probe proves done has succeeded.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when it is not over, or nothing of it is in question.
    async fn inquire(
        &self,
        project: &Label,
        id: OperationId,
        inquiry: NewInquiry,
        context: Context,
    ) -> Result<Operation, StoreError>;

    /// Takes a person's word for a step of which nobody knows whether it happened, and starts the operation again
    /// where there is something to do and `run` says so.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when it is not over, the step is not in question, or another one is.
    async fn decide(
        &self,
        project: &Label,
        id: OperationId,
        decision: Decision,
        run: Option<NewRun>,
        context: Context,
    ) -> Result<Operation, StoreError>;

    /// Fails the operations whose deadline has passed at `context.at`: at once where no node has taken them, else
    /// by asking their nodes to stop. Answers how many.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn expire_operations(&self, context: Context) -> Result<u64, StoreError>;

    /// The earliest deadline of any operation that has not passed its own.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn next_operation_deadline(&self) -> Result<Option<Timestamp>, StoreError>;

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
