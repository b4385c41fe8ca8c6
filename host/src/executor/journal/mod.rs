//! What this host has taken, started, finished and not yet reported: durable before it counts.
//!
//! One SQLite file. Every write is one transaction, synchronised to disk, with a crash point on each
//! side of its commit.

mod recorder;

use std::{collections::BTreeMap, path::Path, str::FromStr as _, sync::Arc};

use fettle_model::{
    name::StepId,
    operation::StepOutcome,
    task::{Epoch, StepEvent, Task, TaskOutcome},
};
use serde::{Serialize, de::DeserializeOwned};
use sqlx::{
    Row as _, Sqlite, SqlitePool, Transaction,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use tokio::sync::watch;

pub use self::recorder::Recorder;

/// Why the journal could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be opened.
    #[error("the journal {path} cannot be opened; check the disk and the permissions")]
    Open {
        /// The file.
        path: String,
        /// The database's words.
        #[source]
        source: sqlx::Error,
    },
    /// A statement failed: the disk is full, or broken.
    #[error("the journal cannot be written or read; check the disk")]
    Database(#[source] sqlx::Error),
    /// Something in it is not what this version writes.
    #[error("the journal holds something unreadable")]
    Content(#[source] serde_json::Error),
}

/// The host's journal. Cheap to clone.
#[derive(Clone)]
pub struct Journal {
    pool: SqlitePool,
    changed: Arc<watch::Sender<u64>>,
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
pub struct Finished<'a> {
    /// The step.
    pub step_id: &'a StepId,
    /// 0 when it was never started.
    pub attempt: u32,
    /// How.
    pub outcome: &'a StepOutcome,
    /// The report.
    pub event: &'a StepEvent,
}

fn to_text<T: Serialize>(value: &T) -> Result<String, JournalError> {
    serde_json::to_string(value).map_err(JournalError::Content)
}

fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, JournalError> {
    serde_json::from_str(text).map_err(JournalError::Content)
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
        let error = |source| JournalError::Open { path: path.display().to_string(), source };
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true);
        let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await.map_err(error)?;
        sqlx::migrate!("./migrations").run(&pool).await.map_err(|source| error(source.into()))?;
        Ok(Self { pool, changed: Arc::new(watch::Sender::new(0)) })
    }

    /// Wakes when there is something new to report.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    async fn begin(&self) -> Result<Transaction<'static, Sqlite>, JournalError> {
        self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(JournalError::Database)
    }

    async fn commit(&self, transaction: Transaction<'static, Sqlite>) -> Result<(), JournalError> {
        fettle_crash::point("journal::before_commit");
        transaction.commit().await.map_err(JournalError::Database)?;
        fettle_crash::point("journal::after_commit");
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
        Ok(())
    }

    /// Takes a leased task, before the lease is acknowledged. A newer lease of a known task replaces
    /// its epoch.
    ///
    /// # Errors
    /// When it cannot be written; the lease must not be acknowledged then.
    pub async fn accept(&self, task: &Task, epoch: Epoch) -> Result<Accepted, JournalError> {
        let mut transaction = self.begin().await?;
        let known = sqlx::query("UPDATE tasks SET epoch = max(epoch, $2) WHERE task_id = $1")
            .bind(&task.task_id)
            .bind(to_integer(epoch.0))
            .execute(&mut *transaction)
            .await
            .map_err(JournalError::Database)?;
        let accepted = if known.rows_affected() > 0 { Accepted::Known } else { Accepted::New };
        if accepted == Accepted::New {
            sqlx::query("INSERT INTO tasks (task_id, task, epoch) VALUES ($1, $2, $3)")
                .bind(&task.task_id)
                .bind(to_text(task)?)
                .bind(to_integer(epoch.0))
                .execute(&mut *transaction)
                .await
                .map_err(JournalError::Database)?;
        }
        self.commit(transaction).await?;
        Ok(accepted)
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
        event: &StepEvent,
    ) -> Result<(), JournalError> {
        let mut transaction = self.begin().await?;
        set_attempt(&mut transaction, task_id, step_id, attempt, "started").await?;
        append(&mut transaction, task_id, std::slice::from_ref(event)).await?;
        self.commit(transaction).await
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
        event: &StepEvent,
    ) -> Result<(), JournalError> {
        let mut transaction = self.begin().await?;
        set_attempt(&mut transaction, task_id, step_id, attempt, "failed").await?;
        append(&mut transaction, task_id, std::slice::from_ref(event)).await?;
        self.commit(transaction).await
    }

    /// Journals how a step ended, once.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn finish_step(&self, task_id: &str, finished: Finished<'_>) -> Result<(), JournalError> {
        let mut transaction = self.begin().await?;
        let first =
            sqlx::query("INSERT INTO outcomes (task_id, step_id, outcome) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING")
                .bind(task_id)
                .bind(finished.step_id.as_str())
                .bind(to_text(finished.outcome)?)
                .execute(&mut *transaction)
                .await
                .map_err(JournalError::Database)?;
        if first.rows_affected() == 0 {
            return Ok(());
        }
        if finished.attempt > 0 {
            set_attempt(&mut transaction, task_id, finished.step_id, finished.attempt, "finished").await?;
        }
        append(&mut transaction, task_id, std::slice::from_ref(finished.event)).await?;
        self.commit(transaction).await
    }

    /// Journals reports that change nothing by themselves: log lines, progress.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn append(&self, task_id: &str, events: &[StepEvent]) -> Result<(), JournalError> {
        let mut transaction = self.begin().await?;
        append(&mut transaction, task_id, events).await?;
        self.commit(transaction).await
    }

    /// Journals how a task ended, before the plane is told.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn end_task(&self, task_id: &str, outcome: &TaskOutcome) -> Result<(), JournalError> {
        let mut transaction = self.begin().await?;
        sqlx::query("UPDATE tasks SET outcome = $2 WHERE task_id = $1")
            .bind(task_id)
            .bind(to_text(outcome)?)
            .execute(&mut *transaction)
            .await
            .map_err(JournalError::Database)?;
        self.commit(transaction).await
    }

    /// Forgets reports that the plane has stored.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn acknowledge(&self, task_id: &str, sequence: u64) -> Result<(), JournalError> {
        let mut transaction = self.begin().await?;
        sqlx::query("DELETE FROM events WHERE task_id = $1 AND sequence <= $2")
            .bind(task_id)
            .bind(to_integer(sequence))
            .execute(&mut *transaction)
            .await
            .map_err(JournalError::Database)?;
        fettle_crash::point("journal::before_commit");
        transaction.commit().await.map_err(JournalError::Database)?;
        fettle_crash::point("journal::after_commit");
        Ok(())
    }

    /// Forgets a task whose end the plane has accepted.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn forget(&self, task_id: &str) -> Result<(), JournalError> {
        let mut transaction = self.begin().await?;
        sqlx::query("DELETE FROM tasks WHERE task_id = $1")
            .bind(task_id)
            .execute(&mut *transaction)
            .await
            .map_err(JournalError::Database)?;
        self.commit(transaction).await
    }

    /// All tasks that the plane has not accepted the end of.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn held(&self) -> Result<Vec<Held>, JournalError> {
        let rows = sqlx::query("SELECT task, epoch, outcome FROM tasks ORDER BY rowid")
            .fetch_all(&self.pool)
            .await
            .map_err(JournalError::Database)?;
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

    /// The newest epoch of a task; none when it is not held.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn epoch(&self, task_id: &str) -> Result<Option<Epoch>, JournalError> {
        let row = sqlx::query("SELECT epoch FROM tasks WHERE task_id = $1")
            .bind(task_id)
            .fetch_optional(&self.pool)
            .await
            .map_err(JournalError::Database)?;
        Ok(row.map(|row| Epoch(u64::try_from(row.get::<i64, _>("epoch")).unwrap_or_default())))
    }

    /// How the steps of a task ended that have.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn finished_steps(&self, task_id: &str) -> Result<BTreeMap<StepId, StepOutcome>, JournalError> {
        let rows = sqlx::query("SELECT step_id, outcome FROM outcomes WHERE task_id = $1")
            .bind(task_id)
            .fetch_all(&self.pool)
            .await
            .map_err(JournalError::Database)?;
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
        .fetch_optional(&self.pool)
        .await
        .map_err(JournalError::Database)?;
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
        .fetch_all(&self.pool)
        .await
        .map_err(JournalError::Database)?;
        Ok(rows
            .iter()
            .map(|row| (u64::try_from(row.get::<i64, _>("sequence")).unwrap_or_default(), row.get("event")))
            .collect())
    }
}

async fn set_attempt(
    transaction: &mut Transaction<'static, Sqlite>,
    task_id: &str,
    step_id: &StepId,
    attempt: u32,
    state: &str,
) -> Result<(), JournalError> {
    sqlx::query(
        "INSERT INTO attempts (task_id, step_id, attempt, state) VALUES ($1, $2, $3, $4)
         ON CONFLICT (task_id, step_id, attempt) DO UPDATE SET state = excluded.state",
    )
    .bind(task_id)
    .bind(step_id.as_str())
    .bind(attempt)
    .bind(state)
    .execute(&mut **transaction)
    .await
    .map(|_| ())
    .map_err(JournalError::Database)
}

async fn append(
    transaction: &mut Transaction<'static, Sqlite>,
    task_id: &str,
    events: &[StepEvent],
) -> Result<(), JournalError> {
    for event in events {
        let sequence = sqlx::query("UPDATE tasks SET next_sequence = next_sequence + 1 WHERE task_id = $1 RETURNING next_sequence - 1 AS sequence")
            .bind(task_id)
            .fetch_optional(&mut **transaction)
            .await
            .map_err(JournalError::Database)?;
        // A task that was forgotten meanwhile has nobody to report to.
        let Some(sequence) = sequence else { return Ok(()) };
        sqlx::query("INSERT INTO events (task_id, sequence, event) VALUES ($1, $2, $3)")
            .bind(task_id)
            .bind(sequence.get::<i64, _>("sequence"))
            .bind(to_text(event)?)
            .execute(&mut **transaction)
            .await
            .map_err(JournalError::Database)?;
    }
    Ok(())
}
