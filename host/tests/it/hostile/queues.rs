//! Full means wait: children, transfers and calls, each with its queue, and again with a larger one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fettle_host::{
    blocking::Blocking,
    capabilities::exec,
    queue::{Pressure, Queue},
    sandbox::{Limits, ON_DEMAND_PART, Sandbox, engine::layout},
};
use serde_json::json;

use super::{
    attacks::{Attack, Field},
    common::{self, TestNode, eventually},
    dead_mount::DeadMount,
    forms,
};

/// A server that takes every connection and never says a word.
pub(crate) struct Silence {
    pub(crate) address: String,
    open: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Silence {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let silence = Self { address, open: Arc::default(), most: Arc::default() };
        let (open, most) = (Arc::clone(&silence.open), Arc::clone(&silence.most));
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let (open, most) = (Arc::clone(&open), Arc::clone(&most));
                tokio::spawn(async move {
                    most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    // Reads until the other side gives up.
                    let _ = tokio::io::copy(&mut connection, &mut tokio::io::sink()).await;
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        silence
    }

    /// Fetches eight blobs from here.
    pub(crate) fn attack(&self) -> Attack {
        let digests: Vec<String> = (0..8).map(|number| format!("sha256:{number:064x}")).collect();
        let target = format!("{}/models/demo", self.address);
        Attack::of("a flood of transfers", json!({"attack": "transfers", "target": target, "digests": digests}))
    }
}

/// Runs so many attacks at once.
async fn flood(field: &Arc<Field>, attack: &Attack, count: usize) {
    let launched: Vec<_> = (0..count)
        .map(|_| {
            let (field, attack) = (Arc::clone(field), attack.clone());
            tokio::spawn(async move { field.outcome(&attack).await })
        })
        .collect();
    for one in launched {
        one.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_transfers_waits_and_is_felt() {
    for (queue, most) in [(2, 2), (64, 3)] {
        let silence = Silence::start().await;
        let pressure = Pressure::default();
        let mut node = TestNode::new();
        node.node.queues.transfers = Queue::new(queue, &pressure);
        let field = Arc::new(Field::beside(node, &silence.address).await);
        let attack = silence.attack().within(Duration::from_millis(900));
        let (felt, open) = (pressure.clone(), Arc::clone(&silence.most));
        let flooding = tokio::spawn({
            let field = Arc::clone(&field);
            async move { flood(&field, &attack, 4).await }
        });
        if queue == 2 {
            eventually("the flood is felt", || felt.is_felt()).await;
        }
        flooding.await.unwrap();
        let seen = open.load(Ordering::SeqCst);
        if queue == 2 {
            assert!((1..=most).contains(&seen), "{seen} connections, and {most} places");
        } else {
            assert!(seen >= most, "without the small queue there are more than {seen} connections");
        }
        assert!(!pressure.is_felt(), "who has given up does not wait");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_children_waits_and_is_felt() {
    for (children, seen) in [(1, false), (64, true)] {
        let pressure = Pressure::default();
        let mut node = TestNode::new();
        node.node.spawner = exec::Spawner::with_children(children, None, &pressure).unwrap();
        let field = Arc::new(Field::on(node).await);
        let attack = Attack::of("a flood of children", json!({"attack": "children", "target": "sleeper", "count": 1}));
        let mark = field.node.attempt();
        let flooding = tokio::spawn({
            let field = Arc::clone(&field);
            async move { flood(&field, &attack, 4).await }
        });
        let mut most = 0;
        while !flooding.is_finished() {
            let mark = mark.clone();
            most = most.max(tokio::task::spawn_blocking(move || super::common::marked_processes(&mark)).await.unwrap());
            if children == 1 {
                assert!(most <= 1, "{most} children, and one place");
            }
        }
        flooding.await.unwrap();
        assert_eq!(most > 1, seen, "{most} children at once with {children} places");
        assert!(!pressure.is_felt());
    }
}

/// Whether anybody waits while two of these attacks run at once on a node with so many places.
async fn two_at_once_wait(slots: u32, attack: &Attack) -> bool {
    let pressure = Pressure::default();
    let mut node = TestNode::new();
    node.sandbox = Sandbox::with_pressure(slots, Limits::default(), &pressure).unwrap();
    let field = Arc::new(Field::on(node).await);
    let felt = pressure.subscribe();
    flood(&field, attack, 2).await;
    assert!(!pressure.is_felt(), "nobody waits when all have ended");
    felt.has_changed().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn more_attempts_than_places_wait_and_are_felt() {
    let sleep = Attack::of("sleep", json!({"attack": "sleep", "count": 1}));
    assert!(two_at_once_wait(1, &sleep).await, "there is one place");
    assert!(!two_at_once_wait(2, &sleep).await, "there are two places");
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_too_large_for_the_pool_wait_for_fewer_places() {
    let large = Attack::form("large and endless", forms::endless_starts(layout::INSTANCES as usize + 1));
    let large = large.within(Duration::from_secs(1));
    let one_place = u32::try_from(ON_DEMAND_PART).unwrap();
    assert!(two_at_once_wait(one_place, &large).await, "there is one place beside the pool");
    assert!(!two_at_once_wait(2 * one_place, &large).await, "there are two places beside the pool");
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_that_a_dead_mount_holds_keep_others_waiting_and_one_more_does_not() {
    for (threads, outcome) in [(1, "limit.wall-clock"), (2, "ok")] {
        let pressure = Pressure::default();
        let mut node = TestNode::new();
        node.node.queues.blocking = Blocking::new(threads, &pressure);
        let field = Arc::new(Field::on(node).await);
        let dead = match DeadMount::new(field.node.directory.path().join("data/dead")) {
            Ok(dead) => dead,
            Err(error) => return common::skip(&format!("no file system can be mounted here: {error}")),
        };
        let held = Attack::of("reading", json!({"attack": "answer", "count": 1, "target": "data/dead/file"}));
        assert_eq!(field.outcome(&held.within(Duration::from_millis(300))).await, "limit.wall-clock");
        let felt = pressure.subscribe();
        assert_eq!(field.outcome(&Attack::honest().within(Duration::from_secs(2))).await, outcome, "{threads} threads");
        assert_eq!(felt.has_changed().unwrap(), threads == 1, "{threads} threads");
        drop(dead);
    }
}
