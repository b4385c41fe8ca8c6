//! What this host has taken, started, finished and not yet reported: durable before it counts.
//!
//! One SQLite file. Every write is one transaction, synchronised to disk, with a crash point on each
//! side of its commit.

mod book;
mod cassettes;
mod change;
mod read;
mod recorder;
mod rows;
mod script;
mod wait;
mod writer;

use std::{path::Path, sync::Arc};

use fettle_model::{
    name::StepId,
    operation::StepOutcome,
    task::{Epoch, StepEvent, Task, TaskOutcome},
};
use serde::{Serialize, de::DeserializeOwned};
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use self::{
    book::{Book, Recent},
    cassettes::Retention,
    change::{Change, State, StepChange, Written},
    wait::Wait,
    writer::{Inbox, Request, Writer},
};
pub use self::{
    cassettes::{Archive, Bounds, Entry, Filter, Kept},
    read::{AttemptState, Attempts, Progress},
    recorder::{Recorder, Subject},
};

/// Changes that wait for the disk.
const QUEUE: usize = 2048;

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
    recent: Arc<Recent>,
    writer: mpsc::Sender<Request>,
    waiting: Arc<Notify>,
    changed: watch::Receiver<u64>,
    wait: Wait,
}

/// What the journal knew of a task that a plane has leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// Never seen.
    New,
    /// It was begun under an earlier lease.
    Known,
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
    /// What the last attempt did.
    pub cassette: Option<Kept>,
}

/// A change that is on its way to the disk.
#[must_use = "what is not awaited is not known to be durable"]
pub struct Pending {
    answer: oneshot::Receiver<Result<Written, JournalError>>,
    waiting: Arc<Notify>,
}

impl Pending {
    /// Waits until it is durable.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn durable(self) -> Result<(), JournalError> {
        self.written().await.map(|_| ())
    }

    async fn written(mut self) -> Result<Written, JournalError> {
        match self.answer.try_recv() {
            Ok(written) => written,
            Err(_) => {
                self.waiting.notify_one();
                self.answer.await.map_err(|_| JournalError::Closed)?
            }
        }
    }
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
    /// Opens the journal, and makes it when it is not there. Keeps as many cassettes as usual.
    ///
    /// # Errors
    /// When the file cannot be opened, or is no journal of this program.
    pub async fn open(path: &Path) -> Result<Self, JournalError> {
        Self::open_bounded(path, Bounds::default()).await
    }

    /// Opens the journal, and makes it when it is not there. Keeps at most so many cassettes.
    ///
    /// # Errors
    /// When the file cannot be opened, or is no journal of this program.
    pub async fn open_bounded(path: &Path, cassettes: Bounds) -> Result<Self, JournalError> {
        Self::open_waiting(path, cassettes, Wait::default()).await
    }

    /// Opens the journal of a simulated host: nothing else happens while its database works.
    ///
    /// # Errors
    /// When the file cannot be opened, or is no journal of this program.
    #[cfg(feature = "simulation")]
    pub async fn open_in_place(
        path: &Path,
        cassettes: Bounds,
        place: Arc<dyn crate::simulation::InPlace>,
    ) -> Result<Self, JournalError> {
        Self::open_waiting(path, cassettes, Wait::InPlace(place)).await
    }

    async fn open_waiting(path: &Path, cassettes: Bounds, wait: Wait) -> Result<Self, JournalError> {
        let (writing, readers) = wait.of("open", Self::connect(path, cassettes, wait.clone())).await?;
        let (writer, requests) = mpsc::channel(QUEUE);
        let (notify, changed) = watch::channel(0);
        let waiting = Arc::new(Notify::new());
        let inbox = Inbox { requests, waiting: Arc::clone(&waiting) };
        let recent = Arc::clone(&writing.recent);
        tokio::spawn(writing.run(inbox, notify));
        Ok(Self { readers, recent, writer, waiting, changed, wait })
    }

    async fn connect(path: &Path, cassettes: Bounds, wait: Wait) -> Result<(Writer, SqlitePool), JournalError> {
        let error = |source| JournalError::Open { path: path.display().to_string(), source: Arc::new(source) };
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true);
        let pool = |connections| SqlitePoolOptions::new().max_connections(connections);
        let writing = pool(1).connect_with(options.clone()).await.map_err(error)?;
        sqlx_macros::migrate!("./migrations").run(&writing).await.map_err(|source| error(source.into()))?;
        let mut connection = writing.acquire().await.map_err(error)?.detach();
        let retention = Retention::load(&mut connection, cassettes).await?;
        let book = Some(Book::load(&mut connection).await?);
        // There is no network between: a ping would double the cost of a small read.
        let readers = pool(2).test_before_acquire(false).connect_with(options).await.map_err(error)?;
        let recent = Arc::new(Recent::default());
        Ok((Writer { connection, retention, book, recent, wait }, readers))
    }

    /// Wakes when there is something new to report.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.clone()
    }

    /// Hands a change to the writer. Changes are written in the order in which they are handed over.
    async fn hand_over(&self, change: Change) -> Result<Pending, JournalError> {
        let (answer, answered) = oneshot::channel();
        self.writer.send(Request { change, answer }).await.map_err(|_| JournalError::Closed)?;
        Ok(Pending { answer: answered, waiting: Arc::clone(&self.waiting) })
    }

    async fn write(&self, change: Change) -> Result<Written, JournalError> {
        self.hand_over(change).await?.written().await
    }

    async fn step(&self, task_id: &str, change: StepChange) -> Result<Pending, JournalError> {
        self.hand_over(Change::Step { task_id: task_id.to_owned(), change }).await
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

    /// Journals that an attempt starts. One whose effect may not be repeated, or not for nothing, waits
    /// until this is durable.
    ///
    /// # Errors
    /// When the journal is closed.
    pub async fn start_attempt(
        &self,
        task_id: &str,
        step_id: &StepId,
        attempt: u32,
        event: StepEvent,
    ) -> Result<Pending, JournalError> {
        self.set_attempt(task_id, step_id, attempt, (State::Started, Some(event), None)).await
    }

    /// Journals that an attempt gets to `run`, and so may change something from now on.
    ///
    /// # Errors
    /// When the journal is closed.
    pub async fn run_attempt(&self, task_id: &str, step_id: &StepId, attempt: u32) -> Result<Pending, JournalError> {
        self.set_attempt(task_id, step_id, attempt, (State::Ran, None, None)).await
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
        cassette: Option<Kept>,
    ) -> Result<(), JournalError> {
        self.set_attempt(task_id, step_id, attempt, (State::Failed, Some(event), cassette)).await?.durable().await
    }

    /// Journals that nobody saw how an attempt ended: after a crash too it has started, and nothing more is known.
    ///
    /// # Errors
    /// When it cannot be written; nothing may be done about it then.
    pub async fn leave_attempt_open(
        &self,
        task_id: &str,
        step_id: &StepId,
        attempt: u32,
        event: StepEvent,
        cassette: Option<Kept>,
    ) -> Result<(), JournalError> {
        self.set_attempt(task_id, step_id, attempt, (State::Started, Some(event), cassette)).await?.durable().await
    }

    /// Journals that the operation of a task was canceled.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn cancel_task(&self, task_id: &str) -> Result<(), JournalError> {
        self.write(Change::Cancel { task_id: task_id.to_owned() }).await.map(|_| ())
    }

    async fn set_attempt(
        &self,
        task_id: &str,
        step_id: &StepId,
        attempt: u32,
        (state, event, cassette): (State, Option<StepEvent>, Option<Kept>),
    ) -> Result<Pending, JournalError> {
        self.step(task_id, StepChange::Attempt { step_id: step_id.clone(), attempt, state, event, cassette }).await
    }

    /// Journals how a step ended; only the first time counts.
    ///
    /// # Errors
    /// When the journal is closed.
    pub async fn finish_step(&self, task_id: &str, finished: Finished) -> Result<Pending, JournalError> {
        let Finished { step_id, attempt, outcome, event, cassette } = finished;
        self.step(task_id, StepChange::Finish { step_id, attempt, outcome, event, cassette }).await
    }

    /// Journals that a step is about to be undone.
    ///
    /// # Errors
    /// When it cannot be written; it must not be undone then.
    pub async fn begin_undo(&self, task_id: &str, step_id: &StepId) -> Result<(), JournalError> {
        let change = StepChange::Undo { step_id: step_id.clone(), finished: false, cassette: None };
        self.step(task_id, change).await?.durable().await
    }

    /// Journals that undoing a step is over, well or not.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn finish_undo(
        &self,
        task_id: &str,
        step_id: &StepId,
        cassette: Option<Kept>,
    ) -> Result<(), JournalError> {
        let change = StepChange::Undo { step_id: step_id.clone(), finished: true, cassette };
        self.step(task_id, change).await?.durable().await
    }

    /// Keeps the cassette of an attempt that has no end of its own.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn keep(&self, task_id: &str, cassette: Kept) -> Result<(), JournalError> {
        self.step(task_id, StepChange::Keep { cassette }).await?.durable().await
    }

    /// Journals reports that change nothing by themselves: log lines, progress.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn append(&self, task_id: &str, events: Vec<StepEvent>) -> Result<(), JournalError> {
        self.step(task_id, StepChange::Append { events }).await?.durable().await
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
}
