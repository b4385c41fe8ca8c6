//! What this host has taken, started, finished and not yet reported: durable before it counts.
//!
//! One SQLite file. Every write is one transaction, synchronised to disk, with a crash point on each
//! side of its commit.

mod change;
mod recorder;
mod writer;

use std::{collections::BTreeMap, path::Path, str::FromStr as _, sync::Arc};

use fettle_model::{
    name::StepId,
    operation::StepOutcome,
    task::{Epoch, StepEvent, Task, TaskOutcome},
};
use serde::{Serialize, de::DeserializeOwned};
use sqlx::{
    Row as _, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use tokio::sync::{mpsc, oneshot, watch};

pub use self::recorder::{Recorder, Subject};
use self::{
    change::{Change, Written},
    writer::Request,
};

/// Changes that wait for the disk.
const QUEUE: usize = 256;

/// Why the journal could not be read or written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be opened.
    #[error("the journal {path} cannot be opened; check the disk and the permissions")]
    Open {
        /// The file.
        path: String,
        /// The database's words.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// A statement failed: the disk is full, or broken.
    #[error("the journal cannot be written or read; check the disk")]
    Database(#[source] Arc<sqlx::Error>),
    /// Something in it is not what this version writes.
    #[error("the journal holds something unreadable")]
    Content(#[source] Arc<serde_json::Error>),
    /// The task that writes is gone.
    #[error("the journal is closed; the host is shutting down")]
    Closed,
}

impl From<sqlx::Error> for JournalError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(Arc::new(error))
    }
}

/// The host's journal. Cheap to clone.
#[derive(Clone)]
pub struct Journal {
    readers: SqlitePool,
    writer: mpsc::Sender<Request>,
    changed: watch::Receiver<u64>,
}

/// What the journal knew of a task that a plane has leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// Never seen.
    New,
    /// It was begun under an earlier lease.
    Known,
}

/// Where the last attempt of an unfinished step was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptState {
    /// It started and nothing more is known.
    Started,
    /// It failed; another was to follow.
    Failed,
}

/// A task in the journal.
#[derive(Clone, Debug)]
pub struct Held {
    /// The task.
    pub task: Task,
    /// Its newest lease.
    pub epoch: Epoch,
    /// How it ended, when it has.
    pub outcome: Option<TaskOutcome>,
}

/// How a step ended, and the report of it; written together.
pub struct Finished {
    /// The step.
    pub step_id: StepId,
    /// 0 when it was never started.
    pub attempt: u32,
    /// How.
    pub outcome: StepOutcome,
    /// The report.
    pub event: StepEvent,
}

fn to_text<T: Serialize>(value: &T) -> Result<String, JournalError> {
    serde_json::to_string(value).map_err(|error| JournalError::Content(Arc::new(error)))
}

fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, JournalError> {
    serde_json::from_str(text).map_err(|error| JournalError::Content(Arc::new(error)))
}

#[expect(clippy::cast_possible_wrap, reason = "sequences and epochs stay far below 2^63")]
const fn to_integer(number: u64) -> i64 {
    number as i64
}

impl Journal {
    /// Opens the journal, and makes it when it is not there.
    ///
    /// # Errors
    /// When the file cannot be opened, or is no journal of this program.
    pub async fn open(path: &Path) -> Result<Self, JournalError> {
        let error = |source| JournalError::Open { path: path.display().to_string(), source: Arc::new(source) };
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true);
        let pool = |connections| SqlitePoolOptions::new().max_connections(connections);
        let writing = pool(1).connect_with(options.clone()).await.map_err(error)?;
        sqlx::migrate!("./migrations").run(&writing).await.map_err(|source| error(source.into()))?;
        let readers = pool(2).connect_with(options).await.map_err(error)?;
        let (writer, requests) = mpsc::channel(QUEUE);
        let (notify, changed) = watch::channel(0);
        tokio::spawn(writer::run(writing, requests, notify));
        Ok(Self { readers, writer, changed })
    }

    /// Wakes when there is something new to report.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.clone()
    }

    async fn write(&self, change: Change) -> Result<Written, JournalError> {
        let (answer, answered) = oneshot::channel();
        self.writer.send(Request { change, answer }).await.map_err(|_| JournalError::Closed)?;
        answered.await.map_err(|_| JournalError::Closed)?
    }

    /// Takes a leased task, before the lease is acknowledged. A newer lease of a known task replaces
    /// its epoch.
    ///
    /// # Errors
    /// When it cannot be written; the lease must not be acknowledged then.
    pub async fn accept(&self, task: &Task, epoch: Epoch) -> Result<Accepted, JournalError> {
        match self.write(Change::Accept { task: Box::new(task.clone()), epoch }).await? {
            Written::Accepted(accepted) => Ok(accepted),
            Written::Done => Ok(Accepted::New),
        }
    }

    /// Journals that an attempt starts, before it does.
    ///
    /// # Errors
    /// When it cannot be written; the attempt must not start then.
    pub async fn start_attempt(
        &self,
        task_id: &str,
        step_id: &StepId,
        attempt: u32,
        event: StepEvent,
    ) -> Result<(), JournalError> {
        self.set_attempt(task_id, step_id, attempt, "started", event).await
    }

    /// Journals that an attempt failed and another will follow.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn fail_attempt(
        &self,
        task_id: &str,
        step_id: &StepId,
        attempt: u32,
        event: StepEvent,
    ) -> Result<(), JournalError> {
        self.set_attempt(task_id, step_id, attempt, "failed", event).await
    }

    async fn set_attempt(
        &self,
        task_id: &str,
        step_id: &StepId,
        attempt: u32,
        state: &'static str,
        event: StepEvent,
    ) -> Result<(), JournalError> {
        let (task_id, step_id) = (task_id.to_owned(), step_id.clone());
        self.write(Change::Attempt { task_id, step_id, attempt, state, event }).await.map(|_| ())
    }

    /// Journals how a step ended; only the first time counts.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn finish_step(&self, task_id: &str, finished: Finished) -> Result<(), JournalError> {
        let Finished { step_id, attempt, outcome, event } = finished;
        self.write(Change::Finish { task_id: task_id.to_owned(), step_id, attempt, outcome, event }).await.map(|_| ())
    }

    /// Journals reports that change nothing by themselves: log lines, progress.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn append(&self, task_id: &str, events: Vec<StepEvent>) -> Result<(), JournalError> {
        self.write(Change::Append { task_id: task_id.to_owned(), events }).await.map(|_| ())
    }

    /// Journals how a task ended, before the plane is told.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn end_task(&self, task_id: &str, outcome: &TaskOutcome) -> Result<(), JournalError> {
        self.write(Change::End { task_id: task_id.to_owned(), outcome: outcome.clone() }).await.map(|_| ())
    }

    /// Forgets reports that the plane has stored.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn acknowledge(&self, task_id: &str, sequence: u64) -> Result<(), JournalError> {
        self.write(Change::Acknowledge { task_id: task_id.to_owned(), sequence }).await.map(|_| ())
    }

    /// Forgets a task whose end the plane has accepted.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn forget(&self, task_id: &str) -> Result<(), JournalError> {
        self.write(Change::Forget { task_id: task_id.to_owned() }).await.map(|_| ())
    }

    /// All tasks that the plane has not accepted the end of.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn held(&self) -> Result<Vec<Held>, JournalError> {
        let rows =
            sqlx::query("SELECT task, epoch, outcome FROM tasks ORDER BY rowid").fetch_all(&self.readers).await?;
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
        let row = query.fetch_optional(&self.readers).await?;
        row.map(|row| from_text(row.get("outcome"))).transpose()
    }

    /// How the steps of a task ended that have.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn finished_steps(&self, task_id: &str) -> Result<BTreeMap<StepId, StepOutcome>, JournalError> {
        let rows = sqlx::query("SELECT step_id, outcome FROM outcomes WHERE task_id = $1")
            .bind(task_id)
            .fetch_all(&self.readers)
            .await?;
        let mut finished = BTreeMap::new();
        for row in rows {
            if let Ok(step_id) = StepId::from_str(row.get("step_id")) {
                finished.insert(step_id, from_text(row.get("outcome"))?);
            }
        }
        Ok(finished)
    }

    /// The last attempt of a step that is not finished.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn last_attempt(
        &self,
        task_id: &str,
        step_id: &StepId,
    ) -> Result<Option<(u32, AttemptState)>, JournalError> {
        let row = sqlx::query(
            "SELECT attempt, state FROM attempts WHERE task_id = $1 AND step_id = $2 ORDER BY attempt DESC LIMIT 1",
        )
        .bind(task_id)
        .bind(step_id.as_str())
        .fetch_optional(&self.readers)
        .await?;
        Ok(row.map(|row| {
            let state =
                if row.get::<&str, _>("state") == "started" { AttemptState::Started } else { AttemptState::Failed };
            (u32::try_from(row.get::<i64, _>("attempt")).unwrap_or_default(), state)
        }))
    }

    /// Reports of a task that the plane has not stored, in order.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn unreported(&self, task_id: &str, after: u64, limit: u32) -> Result<Vec<(u64, String)>, JournalError> {
        let rows = sqlx::query(
            "SELECT sequence, event FROM events WHERE task_id = $1 AND sequence > $2 ORDER BY sequence LIMIT $3",
        )
        .bind(task_id)
        .bind(to_integer(after))
        .bind(limit)
        .fetch_all(&self.readers)
        .await?;
        Ok(rows
            .iter()
            .map(|row| (u64::try_from(row.get::<i64, _>("sequence")).unwrap_or_default(), row.get("event")))
            .collect())
    }
}
