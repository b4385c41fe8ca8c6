//! The one task that writes: whatever has gathered while the last commit was on its way to the disk
//! becomes the next transaction, so that many tasks share one synchronisation. What nobody waits for gathers
//! a little longer.

use std::{sync::Arc, time::Duration};

use sqlx::{Sqlite, SqlitePool, Transaction};
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    time::{Instant, timeout_at},
};

use super::{
    JournalError,
    batch::Batch,
    cassettes::Retention,
    change::{self, Change, Written},
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

/// Writes until every sender is gone.
pub(super) async fn run(pool: SqlitePool, mut retention: Retention, mut inbox: Inbox, changed: watch::Sender<u64>) {
    let mut batch = Vec::with_capacity(BATCH);
    while inbox.next(&mut batch).await > 0 {
        let (changes, answers): (Vec<_>, Vec<_>) =
            batch.drain(..).map(|request| (request.change, request.answer)).unzip();
        match commit(&pool, &mut retention, &changes).await {
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
}

async fn commit(
    pool: &SqlitePool,
    retention: &mut Retention,
    changes: &[Change],
) -> Result<Vec<Written>, JournalError> {
    let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
    let written = apply(&mut transaction, retention, changes).await?;
    fettle_crash::point("journal::before_commit");
    transaction.commit().await?;
    fettle_crash::point("journal::after_commit");
    Ok(written)
}

/// Writes changes in their order; those of steps that come one after another are written together.
async fn apply(
    transaction: &mut Transaction<'static, Sqlite>,
    retention: &mut Retention,
    changes: &[Change],
) -> Result<Vec<Written>, JournalError> {
    let mut written = Vec::with_capacity(changes.len());
    let mut gathered = Batch::default();
    for change in changes {
        if let Change::Step { task_id, change } = change {
            gathered.add(task_id, change);
            written.push(Written::Done);
            continue;
        }
        std::mem::take(&mut gathered).write(transaction, retention).await?;
        written.push(match change {
            Change::Accept { task, epoch } => change::accept(transaction, task, *epoch).await?,
            Change::End { task_id, outcome } => change::end(transaction, task_id, outcome).await?,
            Change::Acknowledge { task_id, sequence } => change::acknowledge(transaction, task_id, *sequence).await?,
            Change::Forget { task_id } => change::forget(transaction, task_id).await?,
            Change::Step { .. } => Written::Done,
        });
    }
    gathered.write(transaction, retention).await?;
    Ok(written)
}
