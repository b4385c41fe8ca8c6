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
mod process;
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
    for point in points {
        let directory = process::Directory::new();
        let deaths = scenario::run(&directory, Some(&point)).await;
        assert_eq!(deaths, 1, "the plane was killed at {point}");
    }
}
