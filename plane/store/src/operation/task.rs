//! The task of an operation on one node, and why it waits.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::id::{NodeId, TaskId};

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
    /// A rule of the organisation's own denies it, for this reason. No store says so: whoever asks the rules adds it.
    Policy(String),
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
