//! Who computes when. Attempts that compute for long take turns and leave one processor to the others:
//! a step that asks a little and waits is not kept waiting by steps that never end.
//!
//! Each attempt has credit to compute at once. Whoever has used it up needs one of few turns, for one
//! tick of the engine at a time; credit grows back while it waits for the host.

use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use tokio::sync::Semaphore;
use tokio_util::sync::PollSemaphore;

use super::spent::Spent;
use crate::mutation::{Protection, off};

/// What an attempt may compute before it takes turns: an honest step with all that it parses and renders.
const CREDIT: Duration = Duration::from_millis(50);

/// Of the time that it waits for the host, this part grows back: 1 / 20.
const REGAINED: u32 = 20;

/// Turns of this node. Cheap to clone.
#[derive(Clone)]
pub(super) struct Processor(Arc<Semaphore>);

impl Processor {
    /// Turns for all processors but one, and for one at least.
    pub(super) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self(Arc::new(Semaphore::new(processors.saturating_sub(1).max(1))))
    }

    /// Does `work`, with its time counted in `spent`.
    pub(super) async fn share<F: Future>(&self, spent: &Spent, work: F) -> F::Output {
        let mut work = pin!(work);
        let mut turns = PollSemaphore::new(Arc::clone(&self.0));
        let mut credit = Credit { left: CREDIT, waits_since: None };
        let mut queued = false;
        poll_fn(|context| {
            // Whoever queued for a turn takes it: one that is granted and left lying stops everybody.
            let turn = if queued || credit.is_used_up() {
                queued = true;
                let Poll::Ready(turn) = turns.poll_acquire(context) else { return Poll::Pending };
                queued = false;
                turn
            } else {
                None
            };
            spent.take_up();
            let polled = work.as_mut().poll(context);
            let slice = spent.put_aside();
            credit.take(slice.computed, polled.is_pending() && !slice.interrupted);
            drop(turn);
            polled
        })
        .await
    }
}

struct Credit {
    left: Duration,
    waits_since: Option<Instant>,
}

impl Credit {
    fn is_used_up(&mut self) -> bool {
        if off(Protection::LongAttemptsTakeTurns) {
            return false;
        }
        let regained = self.waits_since.take().map_or(Duration::ZERO, |since| since.elapsed() / REGAINED);
        self.left = CREDIT.min(self.left.saturating_add(regained));
        self.left.is_zero()
    }

    fn take(&mut self, computed: Duration, waits: bool) {
        self.left = self.left.saturating_sub(computed);
        self.waits_since = waits.then(Instant::now);
    }
}
