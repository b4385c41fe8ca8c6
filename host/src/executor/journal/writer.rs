//! The one task that writes: whatever has gathered while the last commit was on its way to the disk
//! becomes the next transaction, so that many tasks share one synchronisation.

use sqlx::SqlitePool;
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    JournalError,
    change::{Change, Written},
};

/// Most changes of one transaction.
const BATCH: usize = 128;

/// A change and whoever waits for it.
pub(super) struct Request {
    pub(super) change: Change,
    pub(super) answer: oneshot::Sender<Result<Written, JournalError>>,
}

/// Writes until every sender is gone.
pub(super) async fn run(pool: SqlitePool, mut requests: mpsc::Receiver<Request>, changed: watch::Sender<u64>) {
    let mut batch = Vec::with_capacity(BATCH);
    while requests.recv_many(&mut batch, BATCH).await > 0 {
        let (changes, answers): (Vec<_>, Vec<_>) =
            batch.drain(..).map(|request| (request.change, request.answer)).unzip();
        match commit(&pool, &changes).await {
            Ok(written) => {
                for (answer, written) in answers.into_iter().zip(written) {
                    let _ = answer.send(Ok(written));
                }
                changed.send_modify(|count| *count = count.wrapping_add(1));
            }
            Err(error) => {
                for answer in answers {
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
    }
}

async fn commit(pool: &SqlitePool, changes: &[Change]) -> Result<Vec<Written>, JournalError> {
    let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
    let mut written = Vec::with_capacity(changes.len());
    for change in changes {
        written.push(change.apply(&mut transaction).await?);
    }
    fettle_crash::point("journal::before_commit");
    transaction.commit().await?;
    fettle_crash::point("journal::after_commit");
    Ok(written)
}
