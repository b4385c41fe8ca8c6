//! What can be written into the journal. Several changes share one transaction.

use super::{Accepted, cassettes::Kept};
use fettle_model::{
    name::StepId,
    operation::StepOutcome,
    task::{Epoch, StepEvent, Task, TaskOutcome},
};

/// One change; all of it is written or nothing.
#[expect(clippy::large_enum_variant, reason = "the large one is the usual one: boxing it costs where it matters")]
pub(super) enum Change {
    /// A leased task is taken.
    Accept { task: Box<Task>, epoch: Epoch },
    /// The operation of a task was canceled.
    Cancel { task_id: String },
    /// A task is over.
    End { task_id: String, outcome: TaskOutcome },
    /// The plane has stored these reports.
    Acknowledge { task_id: String, sequence: u64 },
    /// The plane has accepted the end of a task.
    Forget { task_id: String },
    /// Something about a step. These come in great numbers and are written together.
    Step { task_id: String, change: StepChange },
}

/// Something about a step.
pub(super) enum StepChange {
    /// An attempt starts, gets to `run`, or failed and will be followed by another.
    Attempt { step_id: StepId, attempt: u32, state: State, event: Option<StepEvent>, cassette: Option<Kept> },
    /// It is over.
    Finish { step_id: StepId, attempt: u32, outcome: StepOutcome, event: StepEvent, cassette: Option<Kept> },
    /// It is undone, or begun to be.
    Undo { step_id: StepId, finished: bool, cassette: Option<Kept> },
    /// Something to report that changes nothing.
    Append { events: Vec<StepEvent> },
    /// What an attempt did that has no end of its own.
    Keep { cassette: Kept },
}

/// How far an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Started,
    Ran,
    Failed,
    Finished,
}

/// What a change found.
pub(super) enum Written {
    /// Of `Accept`.
    Accepted(Accepted),
    /// Of all others.
    Done,
}

impl State {
    /// As it is written. An attempt that got to `run` is one that started and nothing more is known of.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Started | Self::Ran => "started",
            Self::Failed => "failed",
            Self::Finished => "finished",
        }
    }
}
