//! The one writer. Verbs that arrive while a commit is synced make up the next commit; each is a
//! savepoint, so that one that is refused leaves the others alone, and is answered after the commit.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use fettle_store::{
    StoreError,
    change::{Change, Listener},
    fact::Fact,
};
use futures::future::BoxFuture;
use sqlx::{Connection as _, SqliteConnection};
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::{
    error::{Closed, CommitFailed, NotBegun, unavailable},
    journal::{Journal, Unwritten},
    lane::{Lane, Together},
};

/// Verbs of one commit, at most. Bounds how long the first one waits for the last.
pub(crate) const GROUP: usize = 256;

/// Verbs that may wait; more wait before the queue.
const QUEUE: usize = 1024;

/// What a verb works on.
pub(crate) struct Unit {
    /// The writing connection, inside a transaction.
    pub(crate) connection: SqliteConnection,
    /// Rows that are written with the commit.
    pub(crate) journal: Journal,
    changes: Vec<Change>,
    facts: Vec<Fact>,
}

/// How far a transaction had come.
#[derive(Clone, Copy)]
struct Mark {
    journal: crate::journal::Mark,
    changes: usize,
    facts: usize,
}

impl Unit {
    fn new(connection: SqliteConnection) -> Self {
        Self { connection, journal: Journal::default(), changes: Vec::new(), facts: Vec::new() }
    }

    /// Tells those who wait for it, once the transaction is durable.
    pub(crate) fn announce(&mut self, change: Change) {
        if !self.changes.contains(&change) {
            self.changes.push(change);
        }
    }

    /// Tells of it once, when the transaction is durable.
    pub(crate) fn witness(&mut self, fact: Fact) {
        self.facts.push(fact);
    }

    fn mark(&self) -> Mark {
        Mark { journal: self.journal.mark(), changes: self.changes.len(), facts: self.facts.len() }
    }

    fn back_to(&mut self, mark: Mark) {
        self.journal.back_to(mark.journal);
        self.changes.truncate(mark.changes);
        self.facts.truncate(mark.facts);
    }

    fn clear(&mut self) {
        self.journal = Journal::default();
        self.changes.clear();
        self.facts.clear();
    }
}

/// Is told whether and why the commit failed.
type Answer = Box<dyn FnOnce(Option<&str>) + Send>;

/// Answers verbs that were run.
pub(crate) struct Reply {
    verbs: usize,
    answer: Answer,
}

impl Reply {
    pub(crate) fn new(verbs: usize, answer: impl FnOnce(Option<&str>) + Send + 'static) -> Self {
        Self { verbs, answer: Box::new(answer) }
    }
}

/// How a job ended.
pub(crate) enum Turn {
    /// It had nothing to run: another job has run what it was to run.
    Idle,
    /// What it wrote stays.
    Done(Reply),
    /// What it wrote is undone.
    TakeBack(Reply),
    /// What it wrote is undone, and these are run in its place.
    Apart(Vec<Job>),
}

/// Runs one verb, or several of a kind.
pub(crate) type Job = Box<dyn for<'c> FnOnce(&'c mut Unit) -> BoxFuture<'c, Turn> + Send>;

/// The queue to the writer.
pub(crate) struct Writer {
    queue: Mutex<Option<mpsc::Sender<Job>>>,
    sender: mpsc::WeakSender<Job>,
    task: Mutex<Option<tokio::task::JoinHandle<()>>>,
    listener: Arc<dyn Listener>,
}

impl Writer {
    /// Takes over a connection.
    pub(crate) fn start(connection: SqliteConnection, listener: Arc<dyn Listener>) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let task = tokio::spawn(write(Unit::new(connection), receiver, Arc::clone(&listener)));
        Self { sender: sender.downgrade(), queue: Mutex::new(Some(sender)), task: Mutex::new(Some(task)), listener }
    }

    /// Runs one verb in its own savepoint, and answers when it is durable.
    pub(crate) async fn run<T, F>(&self, verb: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Unit) -> BoxFuture<'c, Result<T, StoreError>> + Send + 'static,
    {
        let (sender, answer) = oneshot::channel();
        let job: Job = Box::new(move |unit| {
            Box::pin(async move {
                let result = work(unit).await;
                let keep = result.is_ok();
                let reply = Reply::new(1, move |failed| {
                    let _ = sender.send(match failed {
                        // What it refused may have been refused for the sake of what was not written.
                        Some(reason) => Err(unavailable(verb)(CommitFailed(reason.to_owned()))),
                        None => result,
                    });
                });
                if keep { Turn::Done(reply) } else { Turn::TakeBack(reply) }
            })
        });
        self.queue(verb, job, answer).await
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
        job: Job,
        answer: oneshot::Receiver<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let asked = Instant::now();
        let queue = self.sender.upgrade().ok_or(Closed).map_err(unavailable(verb))?;
        queue.send(job).await.map_err(|_| unavailable(verb)(Closed))?;
        drop(queue);
        let answer = answer.await.map_err(|_| unavailable(verb)(NotBegun))?;
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

async fn write(mut unit: Unit, mut queue: mpsc::Receiver<Job>, listener: Arc<dyn Listener>) {
    let mut group = Vec::with_capacity(GROUP);
    while queue.recv_many(&mut group, GROUP).await > 0 {
        let (replies, result) = commit(&mut unit, group.drain(..).collect(), &mut queue).await;
        let failed = result.err().map(|error| error.to_string());
        let verbs = replies.iter().map(|reply| reply.verbs).sum();
        if let Some(reason) = &failed {
            tracing::error!(reason, verbs, "a commit failed; nothing of it was written");
            let _ = run(&mut unit, "ROLLBACK").await;
            unit.clear();
        } else {
            listener.committed(verbs);
        }
        for fact in unit.facts.drain(..) {
            listener.witnessed(&fact);
        }
        for change in unit.changes.drain(..) {
            listener.changed(&change);
        }
        for reply in replies {
            (reply.answer)(failed.as_deref());
        }
    }
    let _ = unit.connection.close().await;
}

/// Runs the jobs, and those that arrive meanwhile, in one transaction. A job that is dropped was never
/// run, and its caller is told so.
async fn commit(
    unit: &mut Unit,
    jobs: VecDeque<Job>,
    queue: &mut mpsc::Receiver<Job>,
) -> (Vec<Reply>, Result<(), Unwritten>) {
    let mut replies = Vec::new();
    let result = fill(unit, jobs, queue, &mut replies).await;
    if result.is_err() {
        return (replies, result);
    }
    fettle_crash::point("store::before_commit");
    // Releases the last savepoint too.
    let result = run(unit, "COMMIT").await;
    fettle_crash::point("store::after_commit");
    (replies, result.map_err(Unwritten::Database))
}

async fn fill(
    unit: &mut Unit,
    mut jobs: VecDeque<Job>,
    queue: &mut mpsc::Receiver<Job>,
    replies: &mut Vec<Reply>,
) -> Result<(), Unwritten> {
    // Immediate: a transaction that starts reading and then writes could fail in the middle.
    run(unit, "BEGIN IMMEDIATE; SAVEPOINT verb").await?;
    let (mut turns, mut is_used) = (0, false);
    let mut next = |jobs: &mut VecDeque<Job>, turns| {
        let known = jobs.pop_front();
        known.or_else(|| if turns < GROUP { queue.try_recv().ok() } else { None })
    };
    while let Some(job) = next(&mut jobs, turns) {
        if std::mem::take(&mut is_used) {
            run(unit, "RELEASE verb; SAVEPOINT verb").await?;
        }
        turns += 1;
        let mark = unit.mark();
        match job(unit).await {
            Turn::Idle => continue,
            Turn::Done(reply) => {
                is_used = true;
                replies.push(reply);
                continue;
            }
            Turn::TakeBack(reply) => replies.push(reply),
            Turn::Apart(apart) => apart.into_iter().rev().for_each(|job| jobs.push_front(job)),
        }
        unit.back_to(mark);
        // Fails when the database rolled back everything on its own, as it does when the disk is full.
        run(unit, "ROLLBACK TO verb").await?;
    }
    std::mem::take(&mut unit.journal).write(&mut unit.connection).await
}

/// Each call is a turn of the connection's thread, so what belongs together goes together.
async fn run(unit: &mut Unit, statements: &'static str) -> Result<(), sqlx::Error> {
    sqlx::query(statements).execute(&mut unit.connection).await.map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex as SyncMutex;

    use fettle_store::id::OperationId;
    use sqlx::{ConnectOptions as _, sqlite::SqliteConnectOptions};

    use super::*;

    #[derive(Default)]
    struct Heard(SyncMutex<Vec<Change>>);

    impl Listener for Heard {
        fn changed(&self, change: &Change) {
            self.0.lock().unwrap().push(change.clone());
        }
    }

    async fn writer() -> (tempfile::TempDir, Writer, Arc<Heard>) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("test.db");
        let connection = SqliteConnectOptions::new().filename(file).create_if_missing(true).connect().await.unwrap();
        let heard = Arc::new(Heard::default());
        let writer = Writer::start(connection, Arc::<Heard>::clone(&heard));
        execute(&writer, "CREATE TABLE things (text TEXT NOT NULL) STRICT").await.unwrap();
        (directory, writer, heard)
    }

    fn change() -> Change {
        Change::Operation("01ARZ3NDEKTSV4RRFFQ69G5FAV".parse::<OperationId>().unwrap())
    }

    async fn execute(writer: &Writer, statement: &'static str) -> Result<(), StoreError> {
        writer
            .run("test", move |unit| {
                Box::pin(async move {
                    unit.announce(change());
                    run(unit, statement).await.map_err(unavailable("test"))
                })
            })
            .await
    }

    async fn count(writer: &Writer) -> i64 {
        let count = writer.run("count", |unit| {
            Box::pin(async move {
                let (count,): (i64,) = sqlx::query_as("SELECT count(*) FROM things")
                    .fetch_one(&mut unit.connection)
                    .await
                    .map_err(unavailable("count"))?;
                Ok(count)
            })
        });
        count.await.unwrap()
    }

    #[tokio::test]
    async fn a_refused_verb_leaves_the_others_of_its_commit_alone() {
        let (_directory, writer, _) = writer().await;
        let good = "INSERT INTO things VALUES ('kept')";
        let half = "INSERT INTO things VALUES ('half'); INSERT INTO things VALUES (NULL)";
        let answers = tokio::join!(execute(&writer, good), execute(&writer, half), execute(&writer, good));
        assert!(answers.0.is_ok() && answers.1.is_err() && answers.2.is_ok());
        assert_eq!(count(&writer).await, 2);
    }

    #[tokio::test]
    async fn a_full_disk_refuses_writes_tells_nobody_of_them_and_passes() {
        let (_directory, writer, heard) = writer().await;
        execute(&writer, "PRAGMA max_page_count = 4").await.unwrap();
        heard.0.lock().unwrap().clear();
        let large = "INSERT INTO things VALUES (hex(randomblob(100000)))";
        let answers = tokio::join!(execute(&writer, large), execute(&writer, large));
        for answer in [answers.0, answers.1] {
            let error = answer.unwrap_err();
            assert!(error.to_string().contains("check its disk space"), "{error}");
        }
        assert!(heard.0.lock().unwrap().is_empty(), "a change that did not happen was announced");
        execute(&writer, "PRAGMA max_page_count = 1000000").await.unwrap();
        execute(&writer, large).await.unwrap();
        assert_eq!(count(&writer).await, 1);
        assert_eq!(heard.0.lock().unwrap().last(), Some(&change()));
    }

    #[tokio::test]
    async fn a_closed_writer_has_finished_what_was_queued_and_refuses_more() {
        let (_directory, writer, _) = writer().await;
        let queued = execute(&writer, "INSERT INTO things VALUES ('queued')");
        tokio::join!(queued, writer.close()).0.unwrap();
        let late = execute(&writer, "INSERT INTO things VALUES ('late')").await.unwrap_err();
        assert!(matches!(late, StoreError::Unavailable { verb: "test", .. }), "{late}");
    }
}
