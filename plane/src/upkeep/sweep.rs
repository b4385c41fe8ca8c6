//! One round: bounded work in small writes, so that others wait for one of them at most.

use std::{sync::Arc, time::Duration};

use fettle_store::{Store, StoreError, id::OperationId, log::SegmentBounds, retention::Ended};
use jiff::{SignedDuration, Timestamp};

use super::Retention;
use crate::observation::PlaneMetrics;

/// Operations that are looked at together.
const OPERATIONS: u32 = 50;

/// Rows of one write.
const ROWS: u32 = 500;

/// Segments that a round closes, and batches of operations that each of its passes takes.
const SEGMENTS: u32 = 2_000;
const BATCHES: u32 = 200;

pub(super) struct Sweep {
    store: Arc<dyn Store>,
    metrics: Arc<PlaneMetrics>,
    retention: Retention,
    bounds: SegmentBounds,
    logs: Pass,
    events: Pass,
    failed: Pass,
    operations: Pass,
}

/// What a pass removes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Logs,
    Events,
    Operations,
}

/// How far a pass has come. It begins anew when the plane does.
struct Pass {
    what: What,
    failed: bool,
    kept: Option<Duration>,
    after: Option<Ended>,
}

impl Sweep {
    pub(super) fn new(store: Arc<dyn Store>, metrics: Arc<PlaneMetrics>, retention: Retention) -> Self {
        let pass = |what, failed, kept| Pass { what, failed, kept, after: None };
        Self {
            logs: pass(What::Logs, false, retention.logs),
            events: pass(What::Events, false, retention.events),
            operations: pass(What::Operations, false, retention.operations),
            failed: pass(What::Operations, true, retention.failed),
            bounds: SegmentBounds::default(),
            store,
            metrics,
            retention,
        }
    }

    /// Does what there is to do now, up to a bound; the next round goes on.
    pub(super) async fn round(&mut self, now: Timestamp) -> Result<(), StoreError> {
        self.close_segments().await?;
        let (store, metrics) = (Arc::clone(&self.store), Arc::clone(&self.metrics));
        for pass in [&mut self.logs, &mut self.events, &mut self.operations, &mut self.failed] {
            pass.run(&*store, &metrics, now).await?;
        }
        self.remove_dead_letters(now).await
    }

    async fn close_segments(&self) -> Result<(), StoreError> {
        let mut left = SEGMENTS;
        loop {
            let due = self.store.logs_to_close(self.bounds, OPERATIONS).await?;
            if due.is_empty() {
                return Ok(());
            }
            for operation in due {
                if left == 0 {
                    return Ok(());
                }
                left -= 1;
                if let Some(closed) = self.store.close_log_segment(operation, self.bounds).await? {
                    self.metrics.log_segments.inc();
                    self.metrics.log_lines_dropped.inc_by(closed.dropped);
                }
            }
        }
    }

    async fn remove_dead_letters(&self, now: Timestamp) -> Result<(), StoreError> {
        let Some(before) = cutoff(now, self.retention.dead_letters) else { return Ok(()) };
        for _ in 0..BATCHES {
            let removed = self.store.remove_dead_letters(before, ROWS).await?;
            self.metrics.removed.with(["dead_letter"]).inc_by(removed);
            if removed < u64::from(ROWS) {
                break;
            }
        }
        Ok(())
    }
}

impl Pass {
    async fn run(&mut self, store: &dyn Store, metrics: &PlaneMetrics, now: Timestamp) -> Result<(), StoreError> {
        let Some(before) = cutoff(now, self.kept) else { return Ok(()) };
        for _ in 0..BATCHES {
            let ended = store.ended_operations(self.failed, before, self.after, OPERATIONS).await?;
            let Some(last) = ended.last().copied() else { return Ok(()) };
            let operations: Vec<OperationId> = ended.iter().map(|one| one.operation).collect();
            if self.what != What::Events {
                drain(metrics, "log", || store.remove_logs(operations.clone(), ROWS)).await?;
            }
            if self.what != What::Logs {
                drain(metrics, "event", || store.remove_events(operations.clone(), ROWS)).await?;
            }
            if self.what == What::Operations {
                let removed = store.remove_operations(operations, before).await?;
                metrics.removed.with(["operation"]).inc_by(removed);
            }
            self.after = Some(last);
        }
        Ok(())
    }
}

/// Removes until nothing is left, one write after the other.
async fn drain<F>(metrics: &PlaneMetrics, what: &'static str, remove: impl Fn() -> F) -> Result<(), StoreError>
where
    F: Future<Output = Result<u64, StoreError>>,
{
    loop {
        let removed = remove().await?;
        metrics.removed.with([what]).inc_by(removed);
        if removed == 0 {
            return Ok(());
        }
    }
}

/// What ended then or before is old enough; none when nothing ever is.
fn cutoff(now: Timestamp, kept: Option<Duration>) -> Option<Timestamp> {
    let kept = SignedDuration::try_from(kept?).ok()?;
    now.checked_sub(kept).ok()
}
