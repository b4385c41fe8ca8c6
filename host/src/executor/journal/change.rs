//! What can be written into the journal. Several changes share one transaction.

use fettle_model::{
    name::StepId,
    operation::StepOutcome,
    task::{Epoch, StepEvent, Task, TaskOutcome},
};
use sqlx::{Sqlite, Transaction};

use super::{Accepted, JournalError, cassettes::Kept, to_integer, to_text};

/// One change; all of it is written or nothing.
#[expect(clippy::large_enum_variant, reason = "the large one is the usual one: boxing it costs where it matters")]
pub(super) enum Change {
    /// A leased task is taken.
    Accept { task: Box<Task>, epoch: Epoch },
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

pub(super) type Connection<'a> = &'a mut Transaction<'static, Sqlite>;

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

/// Takes a task, or a newer lease of a known one.
pub(super) async fn accept(transaction: Connection<'_>, task: &Task, epoch: Epoch) -> Result<Written, JournalError> {
    let known = sqlx::query("UPDATE tasks SET epoch = max(epoch, $2) WHERE task_id = $1").bind(&task.task_id);
    if known.bind(to_integer(epoch.0)).execute(&mut **transaction).await?.rows_affected() > 0 {
        return Ok(Written::Accepted(Accepted::Known));
    }
    let insert = sqlx::query("INSERT INTO tasks (task_id, task, epoch) VALUES ($1, $2, $3)").bind(&task.task_id);
    insert.bind(to_text(task)?).bind(to_integer(epoch.0)).execute(&mut **transaction).await?;
    Ok(Written::Accepted(Accepted::New))
}

/// Notes how a task ended.
pub(super) async fn end(
    transaction: Connection<'_>,
    task_id: &str,
    outcome: &TaskOutcome,
) -> Result<Written, JournalError> {
    let query = sqlx::query("UPDATE tasks SET outcome = $2 WHERE task_id = $1").bind(task_id);
    query.bind(to_text(outcome)?).execute(&mut **transaction).await?;
    Ok(Written::Done)
}

/// Forgets reports that are stored elsewhere.
pub(super) async fn acknowledge(
    transaction: Connection<'_>,
    task_id: &str,
    sequence: u64,
) -> Result<Written, JournalError> {
    let query = sqlx::query("DELETE FROM events WHERE task_id = $1 AND sequence <= $2").bind(task_id);
    query.bind(to_integer(sequence)).execute(&mut **transaction).await?;
    Ok(Written::Done)
}

/// Forgets a task.
pub(super) async fn forget(transaction: Connection<'_>, task_id: &str) -> Result<Written, JournalError> {
    sqlx::query("DELETE FROM tasks WHERE task_id = $1").bind(task_id).execute(&mut **transaction).await?;
    Ok(Written::Done)
}
