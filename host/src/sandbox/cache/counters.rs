//! What the cache did since the process started.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use super::entry::Flaw;

/// What a cache of compiled code did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CacheCounts {
    /// Code that was loaded instead of compiled.
    pub hits: u64,
    /// Components that had no entry.
    pub misses: u64,
    /// Entries that were written.
    pub kept: u64,
    /// Entries that made room for others.
    pub evicted: u64,
    /// Entries of another release, configuration or processor. They were replaced.
    pub stale: u64,
    /// Entries that somebody changed, moved or made. They were removed, and their components compiled.
    pub refused: u64,
    /// Times that the disk failed. It costs a compilation each.
    pub failed: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
    pub(super) kept: AtomicU64,
    pub(super) evicted: AtomicU64,
    pub(super) failed: AtomicU64,
    stale: AtomicU64,
    refused: AtomicU64,
}

/// Adds one, and answers how many there are now.
pub(super) fn count(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed) + 1
}

impl Counters {
    /// Counts an entry that is not used, and answers how many like it there were.
    pub(super) fn flaw(&self, flaw: Flaw) -> u64 {
        count(if flaw == Flaw::Stale { &self.stale } else { &self.refused })
    }

    pub(super) fn read(&self) -> CacheCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CacheCounts {
            hits: read(&self.hits),
            misses: read(&self.misses),
            kept: read(&self.kept),
            evicted: read(&self.evicted),
            stale: read(&self.stale),
            refused: read(&self.refused),
            failed: read(&self.failed),
        }
    }
}
