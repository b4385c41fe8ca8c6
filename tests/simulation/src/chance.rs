//! Everything that is random here follows from the seed: what the simulation draws, and what the standard library
//! and tokio ask the system for (keys of hash maps, the branch of a `select!` that is looked at first).

use std::{
    cell::Cell,
    ops::Range,
    sync::{Mutex, PoisonError},
    time::Duration,
};

thread_local! {
    /// What the simulation's own thread gets from the system; none on all other threads.
    static OF_THREAD: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The step of SplitMix64, and what all other threads get.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Chance that can be repeated.
pub(crate) struct Chance(Mutex<fastrand::Rng>);

impl Chance {
    /// Takes over this thread, which must be the only one that simulates.
    #[must_use]
    pub(crate) fn begin(seed: u64) -> Self {
        OF_THREAD.set(Some(seed));
        fastrand::seed(seed);
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        draw(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A number of this range.
    pub(crate) fn of(&self, range: Range<u64>) -> u64 {
        self.draw(|random| random.u64(range))
    }

    /// True that often of a hundred times.
    pub(crate) fn percent(&self, often: u64) -> bool {
        self.of(0..100) < often
    }

    /// So many milliseconds.
    pub(crate) fn milliseconds(&self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.of(range))
    }

    /// One of these.
    pub(crate) fn choose<'a, T>(&self, things: &'a [T]) -> &'a T {
        &things[self.draw(|random| random.usize(0..things.len()))]
    }

    /// Random bytes.
    pub(crate) fn fill(&self, bytes: &mut [u8]) {
        self.draw(|random| random.fill(bytes));
    }
}

fn next(state: u64) -> (u64, u64) {
    let state = state.wrapping_add(STEP);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (state, mixed ^ (mixed >> 31))
}

fn word() -> u64 {
    let of_thread = OF_THREAD.try_with(|state| {
        let (after, word) = next(state.get()?);
        state.set(Some(after));
        Some(word)
    });
    of_thread.ok().flatten().unwrap_or(STEP)
}

/// Stands in for the system's randomness in this process, which holds no secret of anybody.
#[expect(unsafe_code, reason = "the standard library asks this symbol of the C library for the keys of its hash maps")]
#[unsafe(no_mangle)]
extern "C" fn getrandom(buffer: *mut u8, length: usize, _flags: u32) -> isize {
    // SAFETY: the caller says that `length` bytes at `buffer` may be written, as the C function demands.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer, length) };
    for part in bytes.chunks_mut(size_of::<u64>()) {
        part.copy_from_slice(&word().to_le_bytes()[..part.len()]);
    }
    length.cast_signed()
}
