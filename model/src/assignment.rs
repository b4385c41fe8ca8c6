//! What a plane signs when it leases a task: the task, and the one occasion that it is meant for.

use serde::{Deserialize, Serialize};

use crate::task::{Epoch, Task};

/// What a signed [`Assignment`] is called inside its envelope.
pub const PAYLOAD_TYPE: &str = "application/vnd.fettle.task.v1+json";

/// A task, signed for one node and one place in one stream of leases. Whoever keeps it cannot use it again: another
/// stream has another challenge, and in this one its number was used.
///
/// No clock is involved, so that it does not matter whether those of plane and node agree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assignment {
    /// The task, which names its node.
    pub task: Task,
    /// The epoch of the lease.
    pub epoch: Epoch,
    /// What the host chose for the stream, in hexadecimal.
    pub challenge: String,
    /// Grows with each assignment of the stream.
    pub number: u64,
    /// Milliseconds since the Unix epoch, by the plane's clock. For the record: nothing is decided by it.
    pub issued_at: i64,
}
