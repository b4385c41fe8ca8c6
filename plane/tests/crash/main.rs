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

use std::{cell::Cell, collections::BTreeMap};

/// What `host` needs of the harness.
pub(crate) async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(std::time::Duration::from_secs(20), what).await.expect("it comes within 20 seconds")
}

/// The process that is killed: a plane with its artifacts in memory. Not a test of its own.
#[tokio::test]
async fn plane_process() {
    process::serve().await;
}

/// Kills the plane at the first hit of each point of a run without a kill, at the second, and so on until it lives: how
/// many there are is not the same in each run, for writes may share a commit. Answers how often it died at each.
async fn survives_every(traced: &process::Directory, run: impl AsyncFn(&str) -> u32) -> BTreeMap<String, u32> {
    let points = traced.trace();
    let names = points.iter().filter_map(|point| point.rsplit_once(':')).map(|(name, _)| (name.to_owned(), 0));
    let mut died: BTreeMap<String, u32> = names.collect();
    for (name, died) in &mut died {
        loop {
            let point = format!("{name}:{}", *died + 1);
            match run(&point).await {
                0 => break,
                1 => *died += 1,
                deaths => panic!("the plane was killed {deaths} times at {point}"),
            }
        }
    }
    died
}

fn assert_at_least(times: u32, died: &BTreeMap<String, u32>) {
    assert_eq!(died.keys().collect::<Vec<_>>(), ["store::after_commit", "store::before_commit"]);
    assert!(died.values().all(|died| *died >= times), "the scenario writes at least {times} times: {died:?}");
}

#[tokio::test]
async fn a_plane_killed_at_any_commit_loses_nothing_and_repeats_nothing() {
    let traced = process::Directory::new();
    scenario::run(&traced, None).await;
    let died =
        survives_every(&traced, async |point| scenario::run(&process::Directory::new(), Some(point)).await).await;
    assert_at_least(15, &died);
}

/// Also between the receiver's answer and the commit that remembers it.
#[tokio::test]
async fn a_plane_killed_at_any_commit_tells_a_receiver_everything_in_order_with_the_same_ids() {
    let traced = process::Directory::new();
    told_in_order(&traced, None).await;
    let repeated = Cell::new(0);
    let died = survives_every(&traced, async |point| {
        let (deaths, again) = told_in_order(&process::Directory::new(), Some(point)).await;
        repeated.set(repeated.get() + again);
        deaths
    })
    .await;
    // The definition, the node, the webhook, three operations one after the other, and what was told of the last.
    assert_at_least(7, &died);
    assert!(repeated.get() > 0, "no kill came between an answer and its commit");
}

/// Answers how often the plane died, and how many events were told more than once.
async fn told_in_order(directory: &process::Directory, crash_at: Option<&str>) -> (u32, usize) {
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
    let arrived = receiver.arrived(3).await;
    let ids = distinct(&arrived);
    assert!(ids.len() == 3 && ids.is_sorted_by_key(|id| number(id)), "{crash_at:?}: {ids:?}");
    (deaths, arrived.len() - 3)
}

/// The event's place in the order of all.
fn number(id: &str) -> i64 {
    id.rsplit_once('_').and_then(|(_, number)| number.parse().ok()).unwrap()
}
