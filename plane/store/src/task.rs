//! Tasks and the leases on them.

use async_trait::async_trait;
use fettle_model::{
    name::{OperationType, Version},
    task::{Epoch, StepEvent, Task, TaskOutcome},
};
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    StoreError,
    context::Context,
    id::{NodeId, OperationId, TaskId},
    project::Project,
};

/// Leases of a task that may be lost or expire before the task fails.
pub const MOST_LEASES: u32 = 16;

/// Which lease somebody speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseKey {
    /// The node that says it holds it.
    pub node_id: NodeId,
    /// The task.
    pub task_id: TaskId,
    /// The epoch it was leased under.
    pub epoch: Epoch,
}

/// A new lease.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    /// The task.
    pub task_id: TaskId,
    /// The epoch.
    pub epoch: Epoch,
    /// What is to be done.
    pub task: Task,
}

/// Whether what was said under a lease counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is stored, now or before.
    Accepted,
    /// The lease is over, or held under a newer epoch.
    Stale,
    /// The task itself is over, or there is none. Only extensions tell this apart.
    Ended,
}

/// An event of a step as a node reported it.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Under which lease.
    pub lease: LeaseKey,
    /// Grows with each event of the task.
    pub sequence: u64,
    /// What happened.
    pub event: StepEvent,
}

/// What a reconnecting node's leases became.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resumed {
    /// Held and renewed.
    pub renewed: Vec<TaskId>,
    /// Held by the node, but over or never its own: it should drop them.
    pub dropped: Vec<TaskId>,
}

/// The answer to an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    /// Whether the lease is longer now.
    pub verdict: Verdict,
    /// Whether the operation was canceled meanwhile.
    pub canceled: bool,
}

/// Which of the tasks that wait for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Up to so many of those that go first.
    First(u32),
    /// This one, if nothing keeps it from the node.
    This(TaskId),
}

impl Wanted {
    /// How many there can be.
    #[must_use]
    pub const fn most(self) -> u32 {
        match self {
            Self::First(most) => most,
            Self::This(_) => 1,
        }
    }
}

/// A task that waits for its node, and what policies are told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadyTask {
    /// The task.
    pub id: TaskId,
    /// Its operation.
    pub operation_id: OperationId,
    /// What type that is of.
    pub operation_type: OperationType,
    /// In which version.
    pub version: Version,
    /// Whose it is.
    pub project: Project,
    /// Its inputs.
    pub inputs: Value,
    /// Who asked for it.
    pub requested_by: String,
    /// When it was accepted.
    pub created_at: Timestamp,
}

/// What a node holds, as far as credentials for it are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldTask {
    /// Its operation.
    pub operation_id: OperationId,
    /// Whose it is.
    pub project: Project,
    /// Follows it everywhere.
    pub correlation_id: String,
}

/// How many tasks are not over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenTasks {
    /// They wait for their node.
    pub ready: u64,
    /// Their node holds them.
    pub leased: u64,
}

/// Tasks. A lease is fenced by its epoch, which grows each time the task is leased. A deadline only
/// makes a lease *expirable*; [`TaskStore::expire_leases`] ends it.
#[async_trait]
pub trait TaskStore: Send + Sync {
    /// Leases the wanted of the tasks that are ready for the node, in the order in which they go, and never more than
    /// the node has slots. A lease that is not acknowledged by `acknowledge_by` can expire.
    ///
    /// # Errors
    /// `NotFound` when there is no such node.
    async fn lease_tasks(
        &self,
        node_id: NodeId,
        wanted: Wanted,
        acknowledge_by: Timestamp,
        context: Context,
    ) -> Result<Vec<Lease>, StoreError>;

    /// The first of the tasks that are ready for the node, in the order in which they go; whatever else may keep them
    /// from it.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn ready_tasks(&self, node_id: NodeId) -> Result<Vec<ReadyTask>, StoreError>;

    /// Takes the node's word for what it holds: those leases last until `deadline`; other leases of
    /// the node never arrived, and their tasks are ready again.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn resume_leases(
        &self,
        node_id: NodeId,
        held: Vec<TaskId>,
        deadline: Timestamp,
        context: Context,
    ) -> Result<Resumed, StoreError>;

    /// The lease arrived. The operation runs from the first one on.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn acknowledge_lease(
        &self,
        lease: LeaseKey,
        deadline: Timestamp,
        context: Context,
    ) -> Result<Verdict, StoreError>;

    /// Stores events in order, each at most once, and a step's result at most once whatever reports
    /// it. One answer per report; `NotFound` for an event of a step that the task does not have. Makes no
    /// lease longer.
    ///
    /// # Errors
    /// When the store does not answer; then none is stored.
    async fn apply_reports(
        &self,
        reports: Vec<Report>,
        context: Context,
    ) -> Result<Vec<Result<Verdict, StoreError>>, StoreError>;

    /// Makes a lease last until `deadline`.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn extend_lease(
        &self,
        lease: LeaseKey,
        deadline: Timestamp,
        context: Context,
    ) -> Result<Extended, StoreError>;

    /// Ends a task, and with its last task the operation. Saying it again changes nothing.
    ///
    /// # Errors
    /// `Conflict` when it is said to have succeeded and a step has not, or to be canceled and nobody
    /// asked for it.
    async fn finish_task(&self, lease: LeaseKey, outcome: TaskOutcome, context: Context)
    -> Result<Verdict, StoreError>;

    /// The task that a node holds under this lease; none when it does not.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn held_task(&self, lease: LeaseKey) -> Result<Option<HeldTask>, StoreError>;

    /// Writes down that a step of a task is given a credential, if the task is still held under this lease: before it is
    /// given. `details` hold no secret.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn record_credential(&self, lease: LeaseKey, details: Value, context: Context)
    -> Result<Verdict, StoreError>;

    /// Ends the leases whose deadline has passed at `context.at`: their tasks are ready again, for the
    /// same node. Answers how many.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn expire_leases(&self, context: Context) -> Result<u64, StoreError>;

    /// How many leases of a task may be lost or expire before the task fails; [`MOST_LEASES`] unless said otherwise.
    /// A lease that is held again does not count.
    fn bound_leases(&self, most: u32);

    /// Lets no lease expire before `until`: a plane that was away may not hold its own absence against
    /// its nodes.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn spare_leases(&self, until: Timestamp) -> Result<(), StoreError>;

    /// The earliest deadline of any lease.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn next_lease_deadline(&self) -> Result<Option<Timestamp>, StoreError>;

    /// How many tasks are not over.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn open_tasks(&self) -> Result<OpenTasks, StoreError>;

    /// Tasks that the node holds and that should stop.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn cancel_requests(&self, node_id: NodeId) -> Result<Vec<TaskId>, StoreError>;
}
