//! Verbs of one kind that wait at the same time are run together: a few round trips for all of them, where each alone
//! would need as many.

use std::sync::{Arc, Mutex, PoisonError};

use fettle_store::StoreError;
use futures::future::BoxFuture;
use tokio::sync::oneshot;

use crate::{
    job::{Ended, Failure, Job, answer},
    unit::Unit,
    writer::GROUP,
};

/// A kind of verb that can be run for many at once.
pub(crate) trait Together: Send + Sync + 'static {
    /// Its name.
    const VERB: &'static str;
    /// What one of them is asked.
    type Asked: Send + Sync + 'static;
    /// What one of them answers.
    type Answer: Send + 'static;

    /// Runs all of them, in order, perhaps more than once. One that is refused has written nothing. With an error, none
    /// of them has happened.
    fn run(
        unit: &mut Unit,
        asked: &[Self::Asked],
    ) -> impl Future<Output = Result<Vec<Result<Self::Answer, StoreError>>, StoreError>> + Send;
}

/// What one verb is answered.
type Answered<K> = Result<<K as Together>::Answer, StoreError>;

struct Waiting<K: Together> {
    asked: K::Asked,
    answer: oneshot::Sender<Answered<K>>,
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
    pub(crate) fn enter(&self, asked: K::Asked) -> (Box<dyn Job>, oneshot::Receiver<Answered<K>>) {
        let (answer, answered) = oneshot::channel();
        self.waiting().push(Waiting { asked, answer });
        (
            Box::new(Ticket {
                lane: Self(Arc::clone(&self.0)),
                asked: Vec::new(),
                answers: Vec::new(),
                result: None,
                is_used: false,
            }),
            answered,
        )
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<Waiting<K>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The turn of a lane. Dropped before it came, it tells those who wait that nothing was run.
struct Ticket<K: Together> {
    lane: Lane<K>,
    asked: Vec<K::Asked>,
    answers: Vec<oneshot::Sender<Answered<K>>>,
    result: Option<Result<Vec<Answered<K>>, StoreError>>,
    is_used: bool,
}

impl<K: Together> Ticket<K> {
    /// Those who wait when the turn comes for the first time; run again, it is for the same.
    fn take(&mut self) {
        if std::mem::replace(&mut self.is_used, true) {
            return;
        }
        let mut waiting = self.lane.waiting();
        let first = waiting.len().min(GROUP);
        (self.asked, self.answers) = waiting.drain(..first).map(|one| (one.asked, one.answer)).unzip();
    }
}

impl<K: Together> Job for Ticket<K> {
    fn verbs(&self) -> usize {
        self.asked.len()
    }

    fn run<'c>(&'c mut self, unit: &'c mut Unit) -> BoxFuture<'c, Ended> {
        Box::pin(async move {
            self.take();
            let result = if self.asked.is_empty() { Ok(Vec::new()) } else { K::run(unit, &self.asked).await };
            let ended = Ended::of(&result);
            self.result = Some(result);
            ended
        })
    }

    fn split(mut self: Box<Self>) -> Vec<Box<dyn Job>> {
        self.take();
        let asked = std::mem::take(&mut self.asked).into_iter().zip(std::mem::take(&mut self.answers));
        let alone = |(asked, answer)| -> Box<dyn Job> {
            Box::new(Self {
                lane: Lane::default(),
                asked: vec![asked],
                answers: vec![answer],
                result: None,
                is_used: true,
            })
        };
        asked.map(alone).collect()
    }

    fn answer(mut self: Box<Self>, failed: Option<&Failure>) {
        self.take();
        let answers = std::mem::take(&mut self.answers);
        match self.result.take() {
            Some(Ok(results)) => {
                for (sender, result) in answers.into_iter().zip(results) {
                    let _ = sender.send(answer(K::VERB, Some(result), failed));
                }
            }
            // Only one that is alone is answered an error: the others are run again, each on its own.
            Some(Err(error)) => {
                let mut error = Some(error);
                for sender in answers {
                    let _ = sender.send(answer(K::VERB, error.take().map(Err), failed));
                }
            }
            None => answers.into_iter().for_each(|sender| {
                let _ = sender.send(answer(K::VERB, None, failed));
            }),
        }
    }
}

impl<K: Together> Drop for Ticket<K> {
    fn drop(&mut self) {
        if !self.is_used {
            self.lane.waiting().clear();
        }
    }
}
