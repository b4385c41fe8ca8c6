//! What an attempt has spent, over all of its calls.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

/// What an attempt has spent so far. Its calls share one; a new attempt begins a new one.
#[derive(Clone, Debug, Default)]
pub struct Spent(Arc<Counts>);

/// An attempt's calls come one after the other, so every number has one writer at a time.
#[derive(Debug, Default)]
struct Counts {
    /// Nanoseconds of processor time up to the last time the attempt was put aside.
    computed: AtomicU64,
    /// The thread's processor time when the attempt was last taken up.
    taken_up: AtomicU64,
    /// Whether it was put aside in the middle of computing.
    interrupted: AtomicBool,
    host_calls: AtomicU64,
    host_bytes: AtomicU64,
}

/// What an attempt did between being taken up and being put aside.
pub(super) struct Slice {
    /// How long it computed.
    pub(super) computed: Duration,
    /// Whether it would have gone on.
    pub(super) interrupted: bool,
}

impl Spent {
    /// The attempt is taken up on this thread.
    pub(super) fn take_up(&self) {
        self.0.taken_up.store(thread_time(), Ordering::Relaxed);
    }

    /// The attempt is put aside.
    pub(super) fn put_aside(&self) -> Slice {
        let slice = self.slice();
        self.0.computed.fetch_add(slice, Ordering::Relaxed);
        let interrupted = self.0.interrupted.swap(false, Ordering::Relaxed);
        Slice { computed: Duration::from_nanos(slice), interrupted }
    }

    /// The engine interrupts it in the middle of computing.
    pub(super) fn interrupt(&self) {
        self.0.interrupted.store(true, Ordering::Relaxed);
    }

    /// Processor time of the attempt, asked while it computes on this thread.
    pub(super) fn computing(&self) -> Duration {
        Duration::from_nanos(self.0.computed.load(Ordering::Relaxed).saturating_add(self.slice()))
    }

    fn slice(&self) -> u64 {
        thread_time().saturating_sub(self.0.taken_up.load(Ordering::Relaxed))
    }

    /// Counts a host call; answers how many that makes.
    pub(crate) fn call(&self) -> u64 {
        self.0.host_calls.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Counts bytes of a host call; answers how many that makes.
    pub(crate) fn carry(&self, bytes: u64) -> u64 {
        self.0.host_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
    }

    /// Processor time so far, asked from outside.
    #[must_use]
    pub fn computed(&self) -> Duration {
        Duration::from_nanos(self.0.computed.load(Ordering::Relaxed))
    }
}

/// Nanoseconds that this thread has computed. Other threads and other programs on the machine do not
/// make it grow, so a busy node does not shorten what a step may compute.
fn thread_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or_default())
}
