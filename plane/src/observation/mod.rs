//! What the plane says of itself: it counts what its store witnesses, and writes a line for each.

mod line;
mod metrics;
mod streams;

use std::{sync::Arc, time::Duration};

use fettle_store::{
    change::{Change, Listener},
    fact::Fact,
};

pub use metrics::PlaneMetrics;
pub(crate) use streams::OpenStream;

use crate::dispatch::Wakeups;

/// Hears of everything that the store does.
pub(crate) struct Observer {
    pub(crate) wakeups: Arc<Wakeups>,
    pub(crate) metrics: Arc<PlaneMetrics>,
}

impl Listener for Observer {
    fn changed(&self, change: &Change) {
        self.wakeups.changed(change);
    }

    fn witnessed(&self, fact: &Fact) {
        self.metrics.count(fact);
        line::write(fact);
    }

    fn answered(&self, verb: &'static str, took: Duration) {
        self.metrics.store_verb.with([verb]).observe(took.as_secs_f64());
    }

    fn committed(&self, writes: usize) {
        self.metrics.store_commit.observe(f64::from(u32::try_from(writes).unwrap_or(u32::MAX)));
    }
}
