//! Operations and their steps.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use fettle_model::{
    definition::Requirements,
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

/// The task of an operation on one node, in its newest run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTask {
    /// The task.
    pub id: TaskId,
    /// The node.
    pub node_id: NodeId,
    /// The name of the node.
    pub node_name: String,
    /// The run that made it, 1 for the first.
    pub run: u32,
    /// Where it is.
    pub status: TaskStatus,
    /// Why it waits, while it does.
    pub waits_for: Vec<Wait>,
}

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskStatus {
    /// It waits for its node.
    Ready,
    /// Its node holds it.
    Leased,
    /// Every step succeeded.
    Succeeded,
    /// It failed for good.
    Failed,
    /// It was canceled.
    Canceled,
    /// It was never started: too many other nodes had failed.
    Skipped,
}

/// Why a task is not given to its node yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing was heard of the node since then; none when never.
    Silent(Option<Timestamp>),
    /// The node executes as many tasks as it can.
    Slots(u32),
    /// The node lacks a capability that it had, or never had.
    Capability {
        /// Which.
        key: String,
        /// What would do.
        accepted: BTreeSet<String>,
        /// What it has.
        actual: Option<String>,
    },
    /// As many operations of the type are under way as may be.
    Concurrency {
        /// `global`, `tenant` or `project`.
        scope: &'static str,
        /// How many may be.
        limit: u32,
    },
    /// As many nodes work on the operation as may.
    ParallelNodes(u32),
}

/// What a new run of an operation is made of.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Ids for its tasks; one per node of the operation is enough.
    pub task_ids: Vec<TaskId>,
    /// Only on these nodes; none means on all where it did not succeed.
    pub nodes: Option<BTreeSet<NodeId>>,
    /// Steps that run again although they succeeded.
    pub not_reusable: BTreeSet<StepId>,
    /// Whether steps run again of which nobody knows whether they happened.
    pub accept_unknown: bool,
    /// When it must be over.
    pub deadline: Option<Timestamp>,
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

/// A step of an operation on one node.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The task it belongs to.
    pub task_id: TaskId,
    /// The node of the task.
    pub node_id: NodeId,
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

impl TaskStatus {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Ready, Self::Leased, Self::Succeeded, Self::Failed, Self::Canceled, Self::Skipped];

    /// The name in documents and databases.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Leased => "leased",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Skipped => "skipped",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
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
