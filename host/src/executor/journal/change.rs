//! What can be written into the journal. Several changes share one transaction.

use fettle_model::{
    name::StepId,
    operation::StepOutcome,
    task::{Epoch, StepEvent, Task, TaskOutcome},
};
use sqlx::{Row as _, Sqlite, Transaction};

use super::{Accepted, JournalError, to_integer, to_text};

/// One change; all of it is written or nothing.
pub(super) enum Change {
    /// A leased task is taken.
    Accept { task: Box<Task>, epoch: Epoch },
    /// An attempt starts, or failed and will be followed by another.
    Attempt { task_id: String, step_id: StepId, attempt: u32, state: &'static str, event: StepEvent },
    /// A step is over.
    Finish { task_id: String, step_id: StepId, attempt: u32, outcome: StepOutcome, event: StepEvent },
    /// Something to report that changes nothing.
    Append { task_id: String, events: Vec<StepEvent> },
    /// A task is over.
    End { task_id: String, outcome: TaskOutcome },
    /// The plane has stored these reports.
    Acknowledge { task_id: String, sequence: u64 },
    /// The plane has accepted the end of a task.
    Forget { task_id: String },
}

/// What a change found.
pub(super) enum Written {
    /// Of `Accept`.
    Accepted(Accepted),
    /// Of all others.
    Done,
}

type Connection<'a> = &'a mut Transaction<'static, Sqlite>;

impl Change {
    /// Writes it into a transaction that somebody else commits.
    pub(super) async fn apply(&self, transaction: Connection<'_>) -> Result<Written, JournalError> {
        match self {
            Self::Accept { task, epoch } => return accept(transaction, task, *epoch).await.map(Written::Accepted),
            Self::Attempt { task_id, step_id, attempt, state, event } => {
                set_attempt(transaction, task_id, step_id, *attempt, state).await?;
                append(transaction, task_id, std::slice::from_ref(event)).await?;
            }
            Self::Finish { task_id, step_id, attempt, outcome, event } => {
                if set_outcome(transaction, task_id, step_id, outcome).await? {
                    if *attempt > 0 {
                        set_attempt(transaction, task_id, step_id, *attempt, "finished").await?;
                    }
                    append(transaction, task_id, std::slice::from_ref(event)).await?;
                }
            }
            Self::Append { task_id, events } => append(transaction, task_id, events).await?,
            Self::End { task_id, outcome } => {
                let query = sqlx::query("UPDATE tasks SET outcome = $2 WHERE task_id = $1").bind(task_id);
                query.bind(to_text(outcome)?).execute(&mut **transaction).await?;
            }
            Self::Acknowledge { task_id, sequence } => {
                let query = sqlx::query("DELETE FROM events WHERE task_id = $1 AND sequence <= $2").bind(task_id);
                query.bind(to_integer(*sequence)).execute(&mut **transaction).await?;
            }
            Self::Forget { task_id } => {
                sqlx::query("DELETE FROM tasks WHERE task_id = $1").bind(task_id).execute(&mut **transaction).await?;
            }
        }
        Ok(Written::Done)
    }
}

async fn accept(transaction: Connection<'_>, task: &Task, epoch: Epoch) -> Result<Accepted, JournalError> {
    let known = sqlx::query("UPDATE tasks SET epoch = max(epoch, $2) WHERE task_id = $1").bind(&task.task_id);
    if known.bind(to_integer(epoch.0)).execute(&mut **transaction).await?.rows_affected() > 0 {
        return Ok(Accepted::Known);
    }
    let insert = sqlx::query("INSERT INTO tasks (task_id, task, epoch) VALUES ($1, $2, $3)").bind(&task.task_id);
    insert.bind(to_text(task)?).bind(to_integer(epoch.0)).execute(&mut **transaction).await?;
    Ok(Accepted::New)
}

/// Answers false when the step had an outcome already: the first one stays.
async fn set_outcome(
    transaction: Connection<'_>,
    task_id: &str,
    step_id: &StepId,
    outcome: &StepOutcome,
) -> Result<bool, JournalError> {
    let insert = "INSERT INTO outcomes (task_id, step_id, outcome) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    let query = sqlx::query(insert).bind(task_id).bind(step_id.as_str()).bind(to_text(outcome)?);
    Ok(query.execute(&mut **transaction).await?.rows_affected() > 0)
}

async fn set_attempt(
    transaction: Connection<'_>,
    task_id: &str,
    step_id: &StepId,
    attempt: u32,
    state: &str,
) -> Result<(), JournalError> {
    let upsert = "INSERT INTO attempts (task_id, step_id, attempt, state) VALUES ($1, $2, $3, $4)
                  ON CONFLICT (task_id, step_id, attempt) DO UPDATE SET state = excluded.state";
    let query = sqlx::query(upsert).bind(task_id).bind(step_id.as_str()).bind(attempt).bind(state);
    query.execute(&mut **transaction).await?;
    Ok(())
}

async fn append(transaction: Connection<'_>, task_id: &str, events: &[StepEvent]) -> Result<(), JournalError> {
    let next =
        "UPDATE tasks SET next_sequence = next_sequence + 1 WHERE task_id = $1 RETURNING next_sequence - 1 AS sequence";
    for event in events {
        // A task that was forgotten meanwhile has nobody to report to.
        let Some(row) = sqlx::query(next).bind(task_id).fetch_optional(&mut **transaction).await? else {
            return Ok(());
        };
        let insert = sqlx::query("INSERT INTO events (task_id, sequence, event) VALUES ($1, $2, $3)").bind(task_id);
        insert.bind(row.get::<i64, _>("sequence")).bind(to_text(event)?).execute(&mut **transaction).await?;
    }
    Ok(())
}
