//! The one writer of a plane. Verbs that arrive while a commit is under way make up the next one, and are answered
//! after it.
//!
//! Most verbs are not refused, so a transaction is tried without savepoints first, which saves a round trip for
//! each verb. When one has to be taken back, all are run again, each in its own savepoint; they are run again too
//! when the connection was lost before the commit, and one by one when another transaction was in the way.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use fettle_store::{
    StoreError,
    change::{Change, Listener},
};
use futures::future::BoxFuture;
use sqlx::{Connection as _, PgConnection, postgres::PgConnectOptions};
use tokio::{
    sync::{Mutex, mpsc, oneshot},
    time::Instant,
};

use crate::{
    connection,
    error::{Closed, unavailable},
    job::{Asked, Ended, Failure, Job, reason},
    journal::Unwritten,
    lane::{Lane, Together},
    trouble::Trouble,
    unit::Unit,
};

/// Verbs of one commit, at most. Bounds how long the first one waits for the last.
pub(crate) const GROUP: usize = 256;

/// Verbs that may wait; more wait before the queue.
const QUEUE: usize = 1024;

/// How often a transaction is tried, and for how long a database that is away is waited for.
const TRIES: u32 = 8;
const PATIENCE: Duration = Duration::from_secs(5);

/// Between two tries to connect.
const PAUSE: Duration = Duration::from_millis(100);

/// A transaction that takes longer is given up, with its connection: the server may be gone without a word.
const LONGEST: Duration = Duration::from_secs(40);

/// The queue to the writer.
pub(crate) struct Writer {
    queue: Mutex<Option<mpsc::Sender<Box<dyn Job>>>>,
    sender: mpsc::WeakSender<Box<dyn Job>>,
    task: Mutex<Option<tokio::task::JoinHandle<()>>>,
    listener: Arc<dyn Listener>,
}

impl Writer {
    /// Takes over a connection. `writes_as` is kept at the number that the server gives the current one.
    pub(crate) fn start(
        options: Arc<PgConnectOptions>,
        connection: PgConnection,
        listener: Arc<dyn Listener>,
        writes_as: Arc<AtomicU32>,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let worker =
            Worker { options, first: Some(connection), unit: None, listener: Arc::clone(&listener), writes_as };
        let task = tokio::spawn(worker.write(receiver));
        Self { sender: sender.downgrade(), queue: Mutex::new(Some(sender)), task: Mutex::new(Some(task)), listener }
    }

    /// Runs one verb, perhaps more than once, and answers when it is durable.
    pub(crate) async fn run<I, T, F>(&self, verb: &'static str, input: I, work: F) -> Result<T, StoreError>
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
        F: for<'c> Fn(&'c mut Unit, &'c I) -> BoxFuture<'c, Result<T, StoreError>> + Send + Sync + 'static,
    {
        let (sender, answer) = oneshot::channel();
        self.queue(verb, Box::new(Asked { verb, input, work, result: None, sender }), answer).await
    }

    /// Runs one verb together with those of its kind that wait, and answers when it is durable.
    pub(crate) async fn run_together<K: Together>(
        &self,
        lane: &Lane<K>,
        asked: K::Asked,
    ) -> Result<K::Answer, StoreError> {
        let (job, answer) = lane.enter(asked);
        self.queue(K::VERB, job, answer).await
    }

    async fn queue<T>(
        &self,
        verb: &'static str,
        job: Box<dyn Job>,
        answer: oneshot::Receiver<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let asked = Instant::now();
        let queue = self.sender.upgrade().ok_or(Closed).map_err(unavailable(verb))?;
        queue.send(job).await.map_err(|_| unavailable(verb)(Closed))?;
        drop(queue);
        let answer = answer.await.map_err(|_| unavailable(verb)(Closed))?;
        self.listener.answered(verb, asked.elapsed());
        answer
    }

    /// Finishes what is queued and closes the connection.
    pub(crate) async fn close(&self) {
        self.queue.lock().await.take();
        if let Some(task) = self.task.lock().await.take() {
            let _ = task.await;
        }
    }
}

struct Worker {
    options: Arc<PgConnectOptions>,
    first: Option<PgConnection>,
    unit: Option<Unit>,
    listener: Arc<dyn Listener>,
    writes_as: Arc<AtomicU32>,
}

impl Worker {
    async fn write(mut self, mut queue: mpsc::Receiver<Box<dyn Job>>) {
        let mut jobs = Vec::with_capacity(GROUP);
        while queue.recv_many(&mut jobs, GROUP).await > 0 {
            let failed = self.commit(&mut jobs, Some(&mut queue)).await.err();
            if matches!(failed, Some(Failure::Apart)) {
                for job in jobs.drain(..).flat_map(Job::split) {
                    let mut alone = vec![job];
                    let failed = self.commit(&mut alone, None).await.err();
                    self.answer(alone, failed.as_ref());
                }
            } else {
                self.answer(std::mem::take(&mut jobs), failed.as_ref());
            }
        }
        if let Some(unit) = self.unit.take() {
            let _ = unit.connection.close().await;
        }
    }

    fn answer(&self, jobs: Vec<Box<dyn Job>>, failed: Option<&Failure>) {
        if let Some(failure) = failed {
            tracing::error!(reason = failure.reason(), verbs = jobs.len(), "a commit failed");
            // It may have been committed nevertheless.
            self.listener.changed(&Change::Everything);
        }
        for job in jobs {
            job.answer(failed);
        }
    }

    /// Tries until it is committed, or there is no sense in trying on. With a queue, takes more jobs from it.
    async fn commit(
        &mut self,
        jobs: &mut Vec<Box<dyn Job>>,
        mut queue: Option<&mut mpsc::Receiver<Box<dyn Job>>>,
    ) -> Result<(), Failure> {
        let end = Instant::now() + PATIENCE;
        let (mut careful, mut tries) = (false, 0);
        loop {
            tries += 1;
            let mut unit = self.connected(end).await?;
            let mut committing = false;
            // What is run again is not made larger: it may be one of the new verbs that fails.
            let more = queue.take();
            let tried = attempt(&mut unit, jobs, more, careful, &mut committing);
            let failure = match tokio::time::timeout(LONGEST, tried).await {
                Ok(Ok(())) => {
                    self.listener.committed(jobs.iter().map(|job| job.verbs()).sum());
                    unit.take_facts().iter().for_each(|fact| self.listener.witnessed(fact));
                    unit.take_changes().iter().for_each(|change| self.listener.changed(change));
                    self.unit = Some(unit);
                    return Ok(());
                }
                Ok(Err(failure)) => failure,
                Err(_) if committing => Failure::Unknown("the server does not answer".to_owned()),
                Err(_) => Failure::Again(Trouble::Lost, "the server does not answer".to_owned()),
            };
            careful = true;
            *jobs = std::mem::take(jobs).into_iter().flat_map(Job::split).collect();
            unit.clear();
            match failure {
                Failure::TakeBack | Failure::Apart => self.rolled_back(unit).await,
                // Two groups that wait for each other would do so again.
                Failure::Again(Trouble::InTheWay, _) if jobs.len() > 1 => {
                    self.rolled_back(unit).await;
                    return Err(Failure::Apart);
                }
                Failure::Again(trouble, reason) => {
                    if trouble != Trouble::Lost {
                        self.rolled_back(unit).await;
                    }
                    if tries >= TRIES || Instant::now() >= end {
                        return Err(Failure::Again(trouble, reason));
                    }
                }
                // The connection is of no use any more.
                Failure::Unknown(reason) => return Err(Failure::Unknown(reason)),
            }
        }
    }

    /// Keeps the connection when the transaction could be rolled back.
    async fn rolled_back(&mut self, mut unit: Unit) {
        let rolled_back = tokio::time::timeout(LONGEST, run(&mut unit, "ROLLBACK")).await;
        self.unit = matches!(rolled_back, Ok(Ok(()))).then_some(unit);
    }

    /// The connection, opened again when it was lost.
    async fn connected(&mut self, end: Instant) -> Result<Unit, Failure> {
        if let Some(unit) = self.unit.take() {
            return Ok(unit);
        }
        // Until it is known which number the new connection has, every announcement is heard.
        self.writes_as.store(0, Ordering::Release);
        loop {
            let error = match self.open().await {
                Ok(unit) => return Ok(unit),
                Err(error) => error,
            };
            if Instant::now() + PAUSE >= end {
                return Err(Failure::Again(Trouble::Lost, error.to_string()));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn open(&mut self) -> Result<Unit, sqlx::Error> {
        let mut connection = match self.first.take() {
            Some(first) => first,
            None => connection::open(&self.options).await?,
        };
        let number: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut connection).await?;
        self.writes_as.store(number.unsigned_abs(), Ordering::Release);
        Ok(Unit::new(connection))
    }
}

/// Runs the jobs, and those that arrive meanwhile, in one transaction.
async fn attempt(
    unit: &mut Unit,
    jobs: &mut Vec<Box<dyn Job>>,
    mut queue: Option<&mut mpsc::Receiver<Box<dyn Job>>>,
    careful: bool,
    committing: &mut bool,
) -> Result<(), Failure> {
    run(unit, "BEGIN").await.map_err(again)?;
    let mut next = 0;
    loop {
        if let Some(queue) = queue.as_mut().filter(|_| next == jobs.len() && next < GROUP) {
            jobs.extend(queue.try_recv().ok());
        }
        let Some(job) = jobs.get_mut(next) else { break };
        next += 1;
        if careful { run_carefully(unit, job.as_mut()).await? } else { run_boldly(unit, job.as_mut()).await? }
    }
    let told = unit.announced();
    let journal = std::mem::take(&mut unit.journal);
    journal.write(&mut unit.connection, told).await.map_err(|unwritten| match unwritten {
        Unwritten::Database(error) => again(error),
        Unwritten::Store(error) => Failure::Again(Trouble::Statement, reason(&error)),
    })?;
    fettle_crash::point("store::before_commit");
    *committing = true;
    let committed = run(unit, "COMMIT").await;
    fettle_crash::point("store::after_commit");
    committed.map_err(|error| match Trouble::of(&error) {
        Trouble::Lost => Failure::Unknown(error.to_string()),
        trouble => Failure::Again(trouble, error.to_string()),
    })
}

/// Without a savepoint: whatever has to be taken back ends the transaction.
async fn run_boldly(unit: &mut Unit, job: &mut dyn Job) -> Result<(), Failure> {
    let mark = unit.mark();
    match job.run(unit).await {
        Ended::Done => Ok(()),
        Ended::Refused if unit.back_to(mark) => Err(Failure::TakeBack),
        Ended::Refused => Ok(()),
        Ended::Failed(Trouble::Statement, _) => Err(Failure::TakeBack),
        Ended::Failed(trouble, reason) => Err(Failure::Again(trouble, reason)),
    }
}

/// In its own savepoint.
async fn run_carefully(unit: &mut Unit, job: &mut dyn Job) -> Result<(), Failure> {
    run(unit, "SAVEPOINT verb").await.map_err(again)?;
    let mark = unit.mark();
    match job.run(unit).await {
        Ended::Done => run(unit, "RELEASE verb").await.map_err(again),
        Ended::Refused | Ended::Failed(Trouble::Statement, _) => {
            unit.back_to(mark);
            run(unit, "ROLLBACK TO verb; RELEASE verb").await.map_err(again)
        }
        Ended::Failed(trouble, reason) => Err(Failure::Again(trouble, reason)),
    }
}

fn again(error: sqlx::Error) -> Failure {
    Failure::Again(Trouble::of(&error), error.to_string())
}

/// Statements without values, in one round trip.
async fn run(unit: &mut Unit, statements: &'static str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(statements).execute(&mut unit.connection).await.map(drop)
}
