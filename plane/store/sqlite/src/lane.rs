//! Verbs of one kind that wait at the same time are run together: a few statements for all of them, where each alone
//! would need as many.

use std::sync::{Arc, Mutex, PoisonError};

use fettle_store::StoreError;
use tokio::sync::oneshot;

use crate::{
    error::{CommitFailed, unavailable},
    writer::{GROUP, Job, Reply, Turn, Unit},
};

/// A kind of verb that can be run for many at once.
pub(crate) trait Together: Send + 'static {
    /// Its name.
    const VERB: &'static str;
    /// What one of them is asked.
    type Asked: Send + Sync + 'static;
    /// What one of them answers.
    type Answer: Send + 'static;

    /// Runs all of them, in order. One that is refused has written nothing. With an error, none of them has happened.
    fn run(
        unit: &mut Unit,
        asked: &[Self::Asked],
    ) -> impl Future<Output = Result<Vec<Result<Self::Answer, StoreError>>, StoreError>> + Send;
}

type Result1<K> = Result<<K as Together>::Answer, StoreError>;

struct Waiting<K: Together> {
    asked: K::Asked,
    answer: oneshot::Sender<Result1<K>>,
}

/// Where verbs of one kind wait.
pub(crate) struct Lane<K: Together>(Arc<Mutex<Vec<Waiting<K>>>>);

impl<K: Together> Default for Lane<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Together> Lane<K> {
    /// Waits in the lane. The job is to be queued: it runs everything that waits when its turn comes.
    pub(crate) fn enter(&self, asked: K::Asked) -> (Job, oneshot::Receiver<Result1<K>>) {
        let (answer, answered) = oneshot::channel();
        self.waiting().push(Waiting { asked, answer });
        let mut ticket = Ticket { lane: Self(Arc::clone(&self.0)), is_used: false };
        let job: Job = Box::new(move |unit| {
            Box::pin(async move {
                ticket.is_used = true;
                run_all(unit, ticket.lane.take()).await
            })
        });
        (job, answered)
    }

    fn take(&self) -> Vec<Waiting<K>> {
        let mut waiting = self.waiting();
        let first = waiting.len().min(GROUP);
        waiting.drain(..first).collect()
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<Waiting<K>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The turn of a lane. Dropped before it came, it tells those who wait that nothing was run.
struct Ticket<K: Together> {
    lane: Lane<K>,
    is_used: bool,
}

impl<K: Together> Drop for Ticket<K> {
    fn drop(&mut self) {
        if !self.is_used {
            self.lane.waiting().clear();
        }
    }
}

async fn run_all<K: Together>(unit: &mut Unit, waiting: Vec<Waiting<K>>) -> Turn {
    let (asked, answers): (Vec<_>, Vec<_>) = waiting.into_iter().map(|one| (one.asked, one.answer)).unzip();
    if asked.is_empty() {
        return Turn::Idle;
    }
    match K::run(unit, &asked).await {
        Ok(results) => Turn::Done(reply::<K>(answers, results)),
        Err(error) if asked.len() == 1 => Turn::TakeBack(reply::<K>(answers, vec![Err(error)])),
        // What one of them is, or finds, is no reason to refuse the others.
        Err(_) => {
            Turn::Apart(asked.into_iter().zip(answers).map(|(asked, answer)| alone::<K>(asked, answer)).collect())
        }
    }
}

fn alone<K: Together>(asked: K::Asked, answer: oneshot::Sender<Result1<K>>) -> Job {
    Box::new(move |unit| Box::pin(async move { run_all(unit, vec![Waiting::<K> { asked, answer }]).await }))
}

fn reply<K: Together>(answers: Vec<oneshot::Sender<Result1<K>>>, results: Vec<Result1<K>>) -> Reply {
    Reply::new(answers.len(), move |failed| {
        for (answer, result) in answers.into_iter().zip(results) {
            let _ = answer.send(match failed {
                Some(reason) => Err(unavailable(K::VERB)(CommitFailed(reason.to_owned()))),
                None => result,
            });
        }
    })
}
