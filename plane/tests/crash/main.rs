//! SIGKILL just before and just after every commit of the plane, in one scenario each: whatever was
//! answered is there after the restart, nothing is there twice, and the operation ends as it should.
#![cfg(feature = "crash-points")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and this one starts processes"
)]

#[path = "../it/support/host.rs"]
#[expect(dead_code, reason = "shared with the other tests")]
mod host;
#[path = "../it/support/member.rs"]
mod member;
mod process;
#[path = "../it/support/receiver.rs"]
#[expect(dead_code, reason = "shared with the other tests")]
mod receiver;
mod scenario;
#[path = "../it/support/shelf.rs"]
mod shelf;

use std::collections::BTreeSet;

/// What `host` needs of the harness.
pub(crate) async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(std::time::Duration::from_secs(20), what).await.expect("it comes within 20 seconds")
}

/// The process that is killed: a plane with its artifacts in memory. Not a test of its own.
#[tokio::test]
async fn plane_process() {
    process::serve().await;
}

#[tokio::test]
async fn a_plane_killed_at_any_commit_loses_nothing_and_repeats_nothing() {
    let traced = process::Directory::new();
    scenario::run(&traced, None).await;
    let points = traced.trace();
    let kinds: BTreeSet<_> = points.iter().filter_map(|point| point.rsplit_once(':')).map(|(name, _)| name).collect();
    assert_eq!(kinds, BTreeSet::from(["store::before_commit", "store::after_commit"]));
    assert!(points.len() >= 30, "the scenario writes at least fifteen times: {points:?}");
    let mut killed = 0_usize;
    for point in &points {
        let directory = process::Directory::new();
        let deaths = scenario::run(&directory, Some(point)).await;
        assert!(deaths <= 1, "the plane was killed {deaths} times at {point}");
        killed += usize::try_from(deaths).unwrap();
    }
    // Writes share a commit on a busy machine, so a run may be over before the last of these points.
    assert!(killed * 4 >= points.len() * 3, "the plane was killed at {killed} of {} points", points.len());
}

/// Also between the receiver's answer and the commit that remembers it.
#[tokio::test]
async fn a_plane_killed_at_any_commit_tells_a_receiver_everything_in_order_with_the_same_ids() {
    let traced = process::Directory::new();
    told_in_order(&traced, None).await;
    let points = traced.trace();
    // The definition, the node, the webhook, three operations one after the other, and what was told of the last.
    assert!(points.len() >= 14, "seven commits at least: {points:?}");
    let mut repeated = 0;
    for point in points {
        repeated += told_in_order(&process::Directory::new(), Some(&point)).await;
    }
    assert!(repeated > 0, "no kill came between an answer and its commit");
}

/// Answers how many events were told more than once.
async fn told_in_order(directory: &process::Directory, crash_at: Option<&str>) -> usize {
    let receiver = receiver::Receiver::start(&[]).await;
    let distinct = |arrived: &[receiver::Delivery]| {
        let mut ids: Vec<String> = Vec::new();
        for id in arrived.iter().map(receiver::Delivery::id) {
            if !ids.iter().any(|known| known == id) {
                ids.push(id.to_owned());
            }
        }
        ids
    };
    let all_told = async {
        let mut count = 3;
        loop {
            let arrived = receiver.arrived(count).await;
            if let Some(last) = distinct(&arrived).get(2) {
                return number(last).to_string();
            }
            count = arrived.len() + 1;
        }
    };
    let deaths = scenario::run_with_webhook(directory, crash_at, &receiver.url, all_told).await;
    assert!(deaths <= 1, "the plane died {deaths} times");
    let arrived = receiver.arrived(3).await;
    let ids = distinct(&arrived);
    assert!(ids.len() == 3 && ids.is_sorted_by_key(|id| number(id)), "{crash_at:?}: {ids:?}");
    arrived.len() - 3
}

/// The event's place in the order of all.
fn number(id: &str) -> i64 {
    id.rsplit_once('_').and_then(|(_, number)| number.parse().ok()).unwrap()
}
