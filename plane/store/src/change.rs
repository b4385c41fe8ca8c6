//! What a committed write means for those who wait.

use std::time::Duration;

use crate::{
    fact::Fact,
    id::{NodeId, OperationId},
};

/// Something that somebody may be waiting for has been committed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// The node has a task to lease.
    TaskReady(NodeId),
    /// A task that the node holds should stop.
    CancelRequested(NodeId),
    /// No certificate of the node counts any more.
    NodeRevoked(NodeId),
    /// A lease was given, made longer or ended: the earliest deadline may be another.
    Lease,
    /// An operation has a deadline: the earliest may be another.
    Deadline,
    /// The operation has new events, logs or states.
    Operation(OperationId),
    /// Webhooks were made, changed or removed, or something is to be told again.
    Webhooks,
    /// Nobody knows: what was announced meanwhile was not heard. All who wait should look.
    Everything,
}

/// Is told of each change, after it is durable. Must return at once.
pub trait Listener: Send + Sync {
    /// One change.
    fn changed(&self, change: &Change);

    /// Something happened that is counted and logged: told once, by the store whose verb it was.
    fn witnessed(&self, _fact: &Fact) {}

    /// A write was answered, that long after it was asked for.
    fn answered(&self, _verb: &'static str, _took: Duration) {}

    /// So many writes became durable together.
    fn committed(&self, _writes: usize) {}
}

/// Listens to nothing.
impl Listener for () {
    fn changed(&self, _change: &Change) {}
}
