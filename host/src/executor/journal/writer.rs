//! The one task that writes: whatever has gathered while the last commit was on its way to the disk
//! becomes the next transaction, so that many tasks share one synchronisation.

use sqlx::{Sqlite, SqlitePool, Transaction};
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    JournalError,
    batch::Batch,
    cassettes::Retention,
    change::{self, Change, Written},
};

/// Most changes of one transaction.
const BATCH: usize = 1024;

/// A change and whoever waits for it.
pub(super) struct Request {
    pub(super) change: Change,
    pub(super) answer: oneshot::Sender<Result<Written, JournalError>>,
}

/// Writes until every sender is gone.
pub(super) async fn run(
    pool: SqlitePool,
    mut retention: Retention,
    mut requests: mpsc::Receiver<Request>,
    changed: watch::Sender<u64>,
) {
    let mut batch = Vec::with_capacity(BATCH);
    while requests.recv_many(&mut batch, BATCH).await > 0 {
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
