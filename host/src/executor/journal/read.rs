//! What the journal knows.

use std::{
    collections::{BTreeMap, BTreeSet},
    str::FromStr as _,
};

use fettle_model::{
    name::StepId,
    operation::StepOutcome,
    task::{Epoch, TaskOutcome},
};
use sqlx::Row as _;

use super::{Held, Journal, JournalError, from_text, to_integer};

/// Where the last attempt of an unfinished step was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptState {
    /// It started and nothing more is known.
    Started,
    /// It failed; another was to follow.
    Failed,
}

/// What is known of the attempts of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempts {
    /// The number of the last one.
    pub last: u32,
    /// Where it was.
    pub state: AttemptState,
    /// Whether any of them got to `run`, and so may have changed something.
    pub ran: bool,
}

/// How far a task is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// How the steps ended that have.
    pub finished: BTreeMap<StepId, StepOutcome>,
    /// The steps that were started.
    pub attempts: BTreeMap<StepId, Attempts>,
    /// The steps that were undone.
    pub undone: BTreeSet<StepId>,
    /// Whether the operation was canceled.
    pub canceled: bool,
}

impl Progress {
    /// Whether anything of the task was ever started.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        !self.attempts.is_empty() || !self.finished.is_empty()
    }
}

impl Journal {
    /// All tasks that the plane has not accepted the end of.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn held(&self) -> Result<Vec<Held>, JournalError> {
        let query = sqlx::query("SELECT task, epoch, outcome FROM tasks ORDER BY rowid");
        let rows = self.wait.of("held", query.fetch_all(&self.readers)).await?;
        let held = rows.iter().map(|row| {
            let outcome: Option<String> = row.get("outcome");
            Ok(Held {
                task: from_text(row.get("task"))?,
                epoch: Epoch(u64::try_from(row.get::<i64, _>("epoch")).unwrap_or_default()),
                outcome: outcome.as_deref().map(from_text).transpose()?,
            })
        });
        held.collect()
    }

    /// How a task ended; none while it has not.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn outcome(&self, task_id: &str) -> Result<Option<TaskOutcome>, JournalError> {
        let query = sqlx::query("SELECT outcome FROM tasks WHERE task_id = $1 AND outcome IS NOT NULL").bind(task_id);
        let row = self.wait.of("outcome", query.fetch_optional(&self.readers)).await?;
        row.map(|row| from_text(row.get("outcome"))).transpose()
    }

    /// How far a task is.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn progress(&self, task_id: &str) -> Result<Progress, JournalError> {
        if self.recent.is_untouched(task_id) {
            return Ok(Progress::default());
        }
        self.wait.of("progress", self.read_progress(task_id)).await
    }

    async fn read_progress(&self, task_id: &str) -> Result<Progress, JournalError> {
        let mut progress = Progress::default();
        let outcomes = sqlx::query("SELECT step_id, outcome FROM outcomes WHERE task_id = $1").bind(task_id);
        for row in outcomes.fetch_all(&self.readers).await? {
            if let Ok(step_id) = StepId::from_str(row.get("step_id")) {
                progress.finished.insert(step_id, from_text(row.get("outcome"))?);
            }
        }
        let query = "SELECT step_id, attempt, state, ran FROM attempts WHERE task_id = $1 ORDER BY attempt";
        for row in sqlx::query(query).bind(task_id).fetch_all(&self.readers).await? {
            let Ok(step_id) = StepId::from_str(row.get("step_id")) else { continue };
            let state =
                if row.get::<&str, _>("state") == "started" { AttemptState::Started } else { AttemptState::Failed };
            let number = u32::try_from(row.get::<i64, _>("attempt")).unwrap_or_default();
            let ran = row.get("ran") || progress.attempts.get(&step_id).is_some_and(|earlier| earlier.ran);
            progress.attempts.insert(step_id, Attempts { last: number, state, ran });
        }
        let undone = sqlx::query("SELECT step_id FROM undone WHERE task_id = $1 AND state = 'finished'").bind(task_id);
        for row in undone.fetch_all(&self.readers).await? {
            progress.undone.extend(StepId::from_str(row.get("step_id")));
        }
        let canceled = sqlx::query("SELECT 1 FROM tasks WHERE task_id = $1 AND canceled = 1").bind(task_id);
        progress.canceled = canceled.fetch_optional(&self.readers).await?.is_some();
        Ok(progress)
    }

    /// Reports of a task that the plane has not stored, in order.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn unreported(&self, task_id: &str, after: u64, limit: u32) -> Result<Vec<(u64, String)>, JournalError> {
        if let Some(recent) = self.recent.after(task_id, after, limit as usize) {
            return Ok(recent);
        }
        let query = sqlx::query(
            "SELECT sequence, event FROM events WHERE task_id = $1 AND sequence > $2 ORDER BY sequence LIMIT $3",
        );
        let query = query.bind(task_id).bind(to_integer(after)).bind(limit);
        let rows = self.wait.of("unreported", query.fetch_all(&self.readers)).await?;
        Ok(rows
            .iter()
            .map(|row| (u64::try_from(row.get::<i64, _>("sequence")).unwrap_or_default(), row.get("event")))
            .collect())
    }
}
