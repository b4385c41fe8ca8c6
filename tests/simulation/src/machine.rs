//! Machines that die, their disks and their clocks.

use std::{
    cell::Cell,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
};

use fettle_host::simulation::InPlace;
use fettle_plane::simulation::World;
use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio::{runtime::Handle, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{chance::Chance, trace::Trace};

/// What every clock shows at the beginning, in milliseconds since 1970.
const BEGIN: i64 = 1_800_000_000_000;

/// A clock that can be set. It outlives the machine that looks at it.
pub(crate) struct Clock {
    trace: Arc<Trace>,
    offset: AtomicI64,
}

/// One life of a plane or a host: from its start to its death.
pub(crate) struct Machine {
    /// Who, for the trace.
    pub(crate) name: String,
    /// Its clock.
    pub(crate) clock: Arc<Clock>,
    /// Over when it is dead.
    pub(crate) dead: CancellationToken,
    chance: Arc<Chance>,
    trace: Arc<Trace>,
    disk: Handle,
    strike: Mutex<Option<Strike>>,
}

/// Dies at a write of its own.
#[derive(Clone, Copy)]
pub(crate) struct Strike {
    /// How many writes are let pass.
    pub(crate) after: u64,
    /// Whether the write is on disk when it dies.
    pub(crate) written: bool,
}

impl Clock {
    /// A clock that goes right.
    #[must_use]
    pub(crate) fn new(trace: &Arc<Trace>) -> Arc<Self> {
        Arc::new(Self { trace: Arc::clone(trace), offset: AtomicI64::new(0) })
    }

    /// Milliseconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        BEGIN + self.trace.elapsed() + self.offset.load(Ordering::Relaxed)
    }

    /// Sets it forward, or back.
    pub(crate) fn jump(&self, milliseconds: i64) {
        self.offset.fetch_add(milliseconds, Ordering::Relaxed);
    }
}

impl Machine {
    /// A machine that lives.
    #[must_use]
    pub(crate) fn start(
        name: &str,
        clock: &Arc<Clock>,
        chance: &Arc<Chance>,
        trace: &Arc<Trace>,
        disk: &Handle,
    ) -> Arc<Self> {
        trace.note(&format!("{name} starts"));
        Arc::new(Self {
            name: name.to_owned(),
            clock: Arc::clone(clock),
            dead: CancellationToken::new(),
            chance: Arc::clone(chance),
            trace: Arc::clone(trace),
            disk: disk.clone(),
            strike: Mutex::default(),
        })
    }

    /// As `kill -9` does.
    pub(crate) fn kill(&self) {
        if !self.dead.is_cancelled() {
            self.trace.note(&format!("{} dies", self.name));
            self.dead.cancel();
        }
    }

    /// Lets it die at one of its next writes.
    pub(crate) fn strike(&self, strike: Strike) {
        *self.strike.lock().unwrap_or_else(PoisonError::into_inner) = Some(strike);
    }

    fn struck(&self) -> Option<Strike> {
        let mut strike = self.strike.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *strike {
            Some(Strike { after: 0, .. }) => strike.take(),
            Some(Strike { after, .. }) => {
                *after -= 1;
                None
            }
            None => None,
        }
    }

    /// Completes work of a disk before it returns, so that nothing else happens meanwhile.
    pub(crate) fn complete<T>(&self, work: impl Future<Output = T>) -> T {
        complete(&self.disk, work)
    }
}

/// Completes work of a disk before it returns: the threads of databases are waited for, and no simulated time passes.
pub(crate) fn complete<T>(disk: &Handle, work: impl Future<Output = T>) -> T {
    let before = STANDS_STILL_AT.replace(Some(now()));
    let on_disk = disk.enter();
    let mut work = pin!(tokio::task::unconstrained(work));
    let waker = Waker::from(Arc::new(Parked(std::thread::current())));
    let answer = loop {
        match work.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => break answer,
            Poll::Pending => std::thread::park(),
        }
    };
    drop(on_disk);
    STANDS_STILL_AT.set(before);
    answer
}

struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    static STANDS_STILL_AT: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The simulated time. On the threads of databases another clock runs, which nobody may see.
pub(crate) fn now() -> Instant {
    STANDS_STILL_AT.get().unwrap_or_else(Instant::now)
}

impl InPlace for Machine {
    fn complete(&self, what: &'static str, work: BoxFuture<'_, ()>) -> bool {
        if self.dead.is_cancelled() {
            return false;
        }
        let strike = if what == "commit" { self.struck() } else { None };
        if strike.is_none_or(|strike| strike.written) {
            self.complete(work);
        }
        if strike.is_some() {
            self.kill();
        }
        strike.is_none()
    }
}

impl World for Machine {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.clock.now()).unwrap_or_default()
    }

    fn random(&self, bytes: &mut [u8]) {
        self.chance.fill(bytes);
    }
}
