//! The steps of an operation.

use std::collections::BTreeSet;

use fettle_model::{
    name::{StepId, StepKind},
    operation::{StepOutcome, StepStatus},
    reference::Reference,
    settlement::Settlement,
};
use jiff::Timestamp;

use crate::id::{NodeId, TaskId};

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
    /// What became of an attempt whose end nobody saw.
    pub settlement: Option<Settlement>,
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
