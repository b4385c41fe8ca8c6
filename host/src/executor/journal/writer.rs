//! The one task that writes: whatever has gathered while the last commit was on its way to the disk
//! becomes the next transaction, so that many tasks share one synchronisation. What nobody waits for gathers
//! a little longer.

use std::{sync::Arc, time::Duration};

use sqlx::{Connection as _, SqliteConnection};
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    time::{Instant, timeout_at},
};

use super::{
    JournalError,
    book::{Book, Recent},
    cassettes::Retention,
    change::{Change, Written},
    script::Script,
    wait::Wait,
};

/// Most changes of one transaction.
const BATCH: usize = 1024;

/// How long changes gather when nobody waits for them: those of steps that only observe. A crash loses as
/// much, and such a step is simply looked at again.
const GATHER: Duration = Duration::from_millis(5);

/// A change and whoever waits for it.
pub(super) struct Request {
    pub(super) change: Change,
    pub(super) answer: oneshot::Sender<Result<Written, JournalError>>,
}

/// What is to be written, and who waits for it.
pub(super) struct Inbox {
    pub(super) requests: mpsc::Receiver<Request>,
    /// Somebody waits until what was handed over is durable.
    pub(super) waiting: Arc<Notify>,
}

impl Inbox {
    /// The requests of the next transaction; none when every sender is gone.
    async fn next(&mut self, batch: &mut Vec<Request>) -> usize {
        let mut gathered = self.requests.recv_many(batch, BATCH).await;
        let deadline = Instant::now() + GATHER;
        while gathered > 0 && gathered < BATCH {
            let more = async {
                tokio::select! {
                    biased;
                    () = self.waiting.notified() => None,
                    more = self.requests.recv_many(batch, BATCH - gathered) => Some(more),
                }
            };
            match timeout_at(deadline, more).await {
                Ok(Some(more)) if more > 0 => gathered += more,
                // Whoever waits handed its change over before it said so.
                _ => return gathered + self.take_ready(batch, BATCH - gathered),
            }
        }
        gathered
    }

    fn take_ready(&mut self, batch: &mut Vec<Request>, room: usize) -> usize {
        let before = batch.len();
        batch.extend(std::iter::from_fn(|| self.requests.try_recv().ok()).take(room));
        batch.len() - before
    }
}

/// The one who writes.
pub(super) struct Writer {
    pub(super) connection: SqliteConnection,
    pub(super) retention: Retention,
    /// None when a write failed: then nothing is certain but the file.
    pub(super) book: Option<Book>,
    pub(super) recent: Arc<Recent>,
    pub(super) wait: Wait,
}

impl Writer {
    /// Writes until every sender is gone.
    pub(super) async fn run(mut self, mut inbox: Inbox, changed: watch::Sender<u64>) {
        let mut batch = Vec::with_capacity(BATCH);
        while inbox.next(&mut batch).await > 0 {
            let (changes, answers): (Vec<_>, Vec<_>) =
                batch.drain(..).map(|request| (request.change, request.answer)).unzip();
            let wait = self.wait.clone();
            match wait.of("commit", self.commit(&changes)).await {
                Ok(written) => {
                    for (answer, written) in answers.into_iter().zip(written) {
                        let _ = answer.send(Ok(written));
                    }
                    changed.send_modify(|count| *count = count.wrapping_add(1));
                }
                Err(error) => {
                    tracing::error!(error = &error as &dyn std::error::Error, "the journal could not be written");
                    for answer in answers {
                        let _ = answer.send(Err(error.clone()));
                    }
                }
            }
        }
        let _ = self.connection.close().await;
    }

    async fn commit(&mut self, changes: &[Change]) -> Result<Vec<Written>, JournalError> {
        let mut book = match self.book.take() {
            Some(book) => book,
            None => Book::load(&mut self.connection).await?,
        };
        let (scripts, written) = scripts(&mut book, changes)?;
        if let Err(error) = self.write(&scripts).await {
            let _ = self.execute("ROLLBACK").await;
            return Err(error);
        }
        self.book = Some(book);
        scripts.into_iter().for_each(|script| script.publish(&self.recent));
        Ok(written)
    }

    async fn write(&mut self, scripts: &[Script<'_>]) -> Result<(), JournalError> {
        self.execute("BEGIN IMMEDIATE").await?;
        for script in scripts {
            script.write(&mut self.connection, &mut self.retention).await?;
        }
        fettle_crash::point("journal::before_commit");
        self.execute("COMMIT").await?;
        fettle_crash::point("journal::after_commit");
        Ok(())
    }

    async fn execute(&mut self, statement: &'static str) -> Result<(), JournalError> {
        sqlx::query(statement).execute(&mut self.connection).await?;
        Ok(())
    }
}

/// Changes in their order: usually one script.
fn scripts<'c>(book: &mut Book, changes: &'c [Change]) -> Result<(Vec<Script<'c>>, Vec<Written>), JournalError> {
    let (mut scripts, mut script) = (Vec::new(), Script::default());
    let mut written = Vec::with_capacity(changes.len());
    for change in changes {
        if script.is_before(change) {
            scripts.push(std::mem::take(&mut script));
        }
        written.push(script.add(book, change)?);
    }
    scripts.push(script);
    Ok((scripts, written))
}
