//! What happened, in order. Its digest says whether two runs were the same.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fettle_model::digest::Digest;
use tokio::time::Instant;

use crate::machine;

/// The lines of one run.
pub(crate) struct Trace {
    begin: Instant,
    told: bool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    text: String,
    violations: Vec<String>,
}

impl Trace {
    /// Begins now, on the simulated clock; `told` prints each line.
    #[must_use]
    pub(crate) fn begin(told: bool) -> Self {
        Self { begin: Instant::now(), told, inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Simulated milliseconds since the beginning.
    pub(crate) fn elapsed(&self) -> i64 {
        i64::try_from(machine::now().saturating_duration_since(self.begin).as_millis()).unwrap_or(i64::MAX)
    }

    /// Notes one line.
    pub(crate) fn note(&self, line: &str) {
        let line = format!("{:>9} {line}\n", self.elapsed());
        if self.told {
            print!("{line}");
        }
        self.lock().text.push_str(&line);
    }

    /// A law was broken.
    pub(crate) fn broken(&self, law: String) {
        self.note(&format!("BROKEN: {law}"));
        self.lock().violations.push(law);
    }

    /// The digest of all lines, and the laws that were broken.
    pub(crate) fn end(&self) -> (Digest, Vec<String>) {
        let inner = self.lock();
        (Digest::of(inner.text.as_bytes()), inner.violations.clone())
    }
}
