//! A day's load, with a clock that is told what time it is.

use std::{path::Path, sync::Arc, time::Duration};

use fettle_model::{
    failure::{Failure, FailureClass},
    operation::StepOutcome,
    task::{LogLevel, LogLine, StepEvent, TaskOutcome},
};
use fettle_store::{
    Health as _, Store,
    audit::AuditStore as _,
    context::{Actor, Context},
    id::OperationId,
    laws::fixture::{self, all, key},
    node::Node,
    operation::{Created, OperationStore as _},
    page::Page,
    project::ProjectStore as _,
    task::{Report, TaskStore as _, Wanted},
};
use fettle_store_sqlite::SqliteStore;
use jiff::{SignedDuration, Timestamp};

use super::{Retention, RetentionError, sweep::Sweep};
use crate::observation::PlaneMetrics;

/// A day has so many rounds, and each so many operations.
const ROUNDS: i64 = 144;
const MINUTES: i64 = 10;
const OPERATIONS: i64 = 3;

/// Hours stand for days: the load is a day's, and what is kept is kept for hours.
fn retention() -> Retention {
    let hours = |count: u64| Some(Duration::from_secs(count * 3600));
    Retention {
        logs: hours(1),
        events: hours(1),
        operations: hours(2),
        failed: hours(4),
        dead_letters: hours(2),
        ..Retention::default()
    }
}

struct Day {
    store: Arc<SqliteStore>,
    node: Node,
    directory: tempfile::TempDir,
    number: i64,
}

/// What the database has at the end of a half of the day.
struct Measure {
    bytes: u64,
    events: usize,
    operations: usize,
}

fn at(minutes: i64) -> Timestamp {
    fixture::at(100) + SignedDuration::from_mins(minutes)
}

fn when(minutes: i64) -> Context {
    Context { actor: Actor::Plane, correlation_id: "day".to_owned(), at: at(minutes) }
}

/// Text that hardly compresses.
fn text(seed: i64) -> String {
    let mut state = u64::try_from(seed).unwrap().wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let word = |state: &mut u64| {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        format!("{state:016x}")
    };
    (0..8).map(|_| word(&mut state)).collect()
}

impl Day {
    async fn begin() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(&directory.path().join("plane.db"), Arc::new(())).await.unwrap());
        let node = fixture::node(&*store, 1, 4).await;
        store.ensure_project(fixture::project("demo"), when(0)).await.unwrap();
        Self { store, node, directory, number: 10 }
    }

    /// An operation of two steps that log; every third one fails.
    async fn operate(&mut self, minutes: i64) {
        self.number += 1;
        let number = u128::try_from(self.number).unwrap();
        let new = fixture::new_operation(number, &self.node, None);
        assert!(matches!(self.store.create_operation(new, when(minutes)).await.unwrap(), Created::New(_)));
        let deadline = at(minutes + 5);
        let mut leases = self.store.lease_tasks(self.node.id, Wanted::First(1), deadline, when(minutes)).await.unwrap();
        let lease = key(&self.node, &leases.remove(0));
        self.store.acknowledge_lease(lease, deadline, when(minutes)).await.unwrap();
        let line = |index| LogLine { at: 1, level: LogLevel::Info, text: text(self.number * 1000 + index) };
        let fails = self.number % 3 == 0;
        let failure = Failure { class: FailureClass::Permanent, code: "test.failed".to_owned(), message: text(1) };
        let mut events = Vec::new();
        for name in ["first", "second"] {
            let step_id = fixture::step(name);
            events.push(StepEvent::Started { step_id: step_id.clone(), attempt: 1, at: 1 });
            events.push(StepEvent::Log { step_id: step_id.clone(), attempt: 1, lines: (0..40).map(line).collect() });
            let result = if fails {
                StepOutcome::Failed { failure: failure.clone() }
            } else {
                StepOutcome::Succeeded { output: serde_json::json!({}), changed: true }
            };
            events.push(StepEvent::Finished { step_id, attempt: 1, result, duration_ms: 5, at: 2 });
            if fails {
                break;
            }
        }
        let report = |(index, event)| Report { lease, sequence: u64::try_from(index).unwrap() + 1, event };
        let reports = events.into_iter().enumerate().map(report).collect();
        for verdict in self.store.apply_reports(reports, when(minutes)).await.unwrap() {
            verdict.unwrap();
        }
        let outcome = if fails {
            TaskOutcome::Failed { failure, step_id: Some(fixture::step("first")) }
        } else {
            TaskOutcome::Succeeded
        };
        self.store.finish_task(lease, outcome, when(minutes)).await.unwrap();
    }

    async fn measure(&self) -> Measure {
        Measure {
            bytes: size(&self.directory.path().join("plane.db")),
            events: self.count_events().await,
            operations: self.count_operations().await,
        }
    }

    async fn count_events(&self) -> usize {
        let store: &dyn Store = &*self.store;
        let (mut after, mut count) = (None, 0);
        loop {
            let events = store.outbox(Page { after, size: 1000 }).await.unwrap();
            let Some(last) = events.last() else { return count };
            after = Some(last.sequence);
            count += events.len();
        }
    }

    async fn count_operations(&self) -> usize {
        let mut found = 0;
        let project = "demo".parse().unwrap();
        for number in 1..=self.number {
            let id = OperationId::new(fixture::ulid(u128::try_from(number).unwrap()));
            found += usize::from(self.store.operation(&project, id).await.unwrap().is_some());
        }
        found
    }
}

fn size(file: &Path) -> u64 {
    std::fs::metadata(file).unwrap().len()
}

/// What the database has at noon and at midnight.
async fn a_day(retention: Option<Retention>) -> (Measure, Measure, Day) {
    let mut day = Day::begin().await;
    let store: Arc<dyn Store> = Arc::<SqliteStore>::clone(&day.store);
    let mut sweep = retention.map(|retention| Sweep::new(store, Arc::new(PlaneMetrics::default()), retention));
    let mut noon = None;
    for round in 0..ROUNDS {
        for _ in 0..OPERATIONS {
            day.operate(round * MINUTES).await;
        }
        if let Some(sweep) = &mut sweep {
            sweep.round(at(round * MINUTES)).await.unwrap();
        }
        if round == ROUNDS / 2 {
            noon = Some(day.measure().await);
        }
    }
    let midnight = day.measure().await;
    (noon.unwrap(), midnight, day)
}

#[tokio::test]
async fn retention_keeps_the_database_bounded_under_a_days_load_and_without_it_it_grows() {
    let (noon, midnight, day) = a_day(Some(retention())).await;
    assert!(midnight.events <= noon.events + 5, "{} then {} events", noon.events, midnight.events);
    assert!(midnight.operations <= noon.operations + 5, "{} then {}", noon.operations, midnight.operations);
    let audited = all_audited(&day).await;
    assert!(audited >= usize::try_from(ROUNDS * OPERATIONS * 3).unwrap(), "{audited}: the trail is whole");
    day.store.close().await;
    let (without_noon, without_midnight, day) = a_day(None).await;
    day.store.close().await;
    let (kept, grown) = (midnight.bytes - noon.bytes.min(midnight.bytes), without_midnight.bytes - without_noon.bytes);
    // The audit trail is kept for ever: some hundred bytes for each thing that somebody did.
    assert!(kept * 5 < grown, "{kept} bytes more with retention, {grown} without");
    assert!(midnight.bytes * 3 < without_midnight.bytes, "{} and {}", midnight.bytes, without_midnight.bytes);
    assert!(without_midnight.events > 4 * midnight.events);
}

async fn all_audited(day: &Day) -> usize {
    let (mut after, mut count) = (None, 0);
    loop {
        let rows = day.store.audit(Page { after, size: 1000 }).await.unwrap();
        let Some(last) = rows.last() else { return count };
        after = Some(last.sequence);
        count += rows.len();
    }
}

#[tokio::test]
async fn failures_are_kept_longest() {
    let mut day = Day::begin().await;
    for _ in 0..3 {
        day.operate(0).await;
    }
    fixture::submit(&*day.store, 1, &day.node).await;
    let store: Arc<dyn Store> = Arc::<SqliteStore>::clone(&day.store);
    let mut sweep = Sweep::new(Arc::clone(&store), Arc::new(PlaneMetrics::default()), retention());
    // One waits and is never over; of three, one failed.
    let mut left = Vec::new();
    for hours in [0, 1, 2, 3, 4] {
        sweep.round(at(hours * 60)).await.unwrap();
        let logs = async |number: u128| {
            let id = OperationId::new(fixture::ulid(number));
            store.logs(id, None, None, all()).await.unwrap().len()
        };
        left.push((day.count_operations().await, logs(11).await, logs(12).await));
    }
    assert_eq!(left, [(4, 80, 40), (4, 0, 40), (2, 0, 40), (2, 0, 40), (1, 0, 0)]);
}

#[test]
fn failures_may_not_be_kept_for_less_long() {
    let hour = Some(Duration::from_secs(3600));
    assert_eq!(Retention::default().check(), Ok(()));
    assert_eq!(Retention { failed: hour, ..Retention::default() }.check(), Err(RetentionError::FailedTooShort));
    assert_eq!(Retention { logs: None, ..Retention::default() }.check(), Err(RetentionError::FailedTooShort));
    assert_eq!(Retention { logs: None, failed: None, ..Retention::default() }.check(), Ok(()));
}
