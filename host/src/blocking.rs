//! Work that blocks in the kernel: on threads of its own, so many at once, and known when nobody waits
//! for it any more.
//!
//! Such work cannot be taken back: a thread that asks a dead network server is the kernel's until the
//! kernel lets go. So the threads are counted, whoever finds none free waits, and what is left behind is
//! said aloud and counted until it ends.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::queue::{Place, Pressure, Queue};

/// Threads at once. Each holds some 50 kB; a node whose disks and servers answer needs a few.
pub const THREADS: usize = 64;

/// The threads of a node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Blocking {
    queue: Queue,
    abandoned: Arc<AtomicUsize>,
}

impl Default for Blocking {
    fn default() -> Self {
        Self::new(THREADS, &Pressure::default())
    }
}

/// Why blocking work has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockingError {
    /// It takes too long, and is left to the kernel.
    #[error("the node did not answer within {} s; a disk or a network server hangs", .0.as_secs())]
    TooLong(Duration),
    /// It panicked, or the host ends.
    #[error("the work was abandoned: {0}")]
    Lost(String),
}

impl Blocking {
    /// Room for so many at once; who waits is felt in `pressure`.
    #[must_use]
    pub fn new(threads: usize, pressure: &Pressure) -> Self {
        Self { queue: Queue::new(threads, pressure), abandoned: Arc::default() }
    }

    /// Threads that are lost to work nobody waits for.
    #[must_use]
    pub fn abandoned(&self) -> usize {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Does `work`, which is named `what` when it has to be abandoned.
    ///
    /// # Errors
    /// When it panics, or the host ends.
    pub async fn run<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, BlockingError> {
        let place = self.queue.enter().await.map_err(|closed| BlockingError::Lost(closed.to_string()))?;
        let fate = Arc::new(Fate::default());
        let watched = Watched { what, fate: Arc::clone(&fate), abandoned: Arc::clone(&self.abandoned) };
        let working = Working { what, fate, abandoned: Arc::clone(&self.abandoned), _place: place };
        let job = move || {
            let _working = working;
            work()
        };
        let joined = tokio::task::spawn_blocking(job).await;
        drop(watched);
        joined.map_err(|error| BlockingError::Lost(error.to_string()))
    }

    /// The same, for at most this long.
    ///
    /// # Errors
    /// When it takes longer, panics, or the host ends.
    pub async fn run_within<T: Send + 'static>(
        &self,
        limit: Duration,
        what: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, BlockingError> {
        tokio::time::timeout(limit, self.run(what, work)).await.map_err(|_| BlockingError::TooLong(limit))?
    }
}

const ENDED: u8 = 1;
const ABANDONED: u8 = 2;

/// Whether work has ended or was abandoned, whichever came first.
#[derive(Default)]
struct Fate(AtomicU8);

impl Fate {
    fn change(&self, to: u8) -> u8 {
        self.0.swap(to, Ordering::AcqRel)
    }
}

/// Work goes on, until this is dropped: also when it panics.
struct Working {
    what: &'static str,
    fate: Arc<Fate>,
    abandoned: Arc<AtomicUsize>,
    _place: Place,
}

impl Drop for Working {
    fn drop(&mut self) {
        if self.fate.change(ENDED) == ABANDONED {
            self.abandoned.fetch_sub(1, Ordering::Relaxed);
            tracing::info!(self.what, "work that had been abandoned has ended");
        }
    }
}

/// Somebody waits, until this is dropped.
struct Watched {
    what: &'static str,
    fate: Arc<Fate>,
    abandoned: Arc<AtomicUsize>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        // Counted first: the work may end between the two lines and count down.
        let count = self.abandoned.fetch_add(1, Ordering::Relaxed) + 1;
        if self.fate.change(ABANDONED) == ENDED {
            self.abandoned.fetch_sub(1, Ordering::Relaxed);
        } else {
            tracing::warn!(self.what, abandoned = count, "nobody waits any more for work that blocks in the kernel");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn what_hangs_is_left_behind_and_counted_until_it_ends() {
        let blocking = Blocking::default();
        let (release, released) = mpsc::channel::<()>();
        let hangs = blocking.run_within(Duration::from_millis(20), "a test", move || released.recv());
        assert_eq!(hangs.await.unwrap_err(), BlockingError::TooLong(Duration::from_millis(20)));
        assert_eq!(blocking.abandoned(), 1);
        drop(release);
        while blocking.abandoned() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(blocking.run("a test", || 7).await, Ok(7));
        assert_eq!(blocking.abandoned(), 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn work_that_panics_gives_its_thread_back_and_is_not_left_behind() {
        let blocking = Blocking::new(1, &Pressure::default());
        for _ in 0..3 {
            let lost = blocking.run("a test", || -> () { panic!("of a test") }).await;
            assert!(matches!(lost, Err(BlockingError::Lost(_))), "{lost:?}");
            assert_eq!(blocking.abandoned(), 0);
        }
        assert_eq!(blocking.run("a test", || 7).await, Ok(7));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn threads_that_hang_are_no_more_than_so_many() {
        let pressure = Pressure::default();
        let blocking = Blocking::new(1, &pressure);
        let (release, released) = mpsc::channel::<()>();
        let limit = Duration::from_millis(20);
        assert!(blocking.run_within(limit, "a test", move || released.recv()).await.is_err());
        let late = blocking.run_within(limit, "a test", || panic!("there is no thread for it"));
        assert_eq!(late.await.unwrap_err(), BlockingError::TooLong(limit));
        drop(release);
        assert_eq!(blocking.run("a test", || 7).await, Ok(7));
    }
}
