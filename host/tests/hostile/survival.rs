//! All attacks together, in random order, beside honest steps: the host goes on, nothing is left behind,
//! and honest steps hardly notice.
//!
//! `FETTLE_HOSTILE_SECONDS` says for how long (10 when it is not set, 120 in `cargo xtask test --all`),
//! `FETTLE_HOSTILE_SEED` in which order.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use fettle_host::sandbox::{Limits, Sandbox};
use serde_json::json;

use crate::{
    attacks::{Attack, Field},
    common::{TestNode, eventually, marked_processes},
    dead_mount::DeadMount,
    forms,
    queues::Silence,
};

/// Attacks at once.
const ATTACKERS: usize = 12;
/// How much slower honest steps may get: twice, and what the clock and the scheduler of the system add to
/// steps that take less than a millisecond.
const SLOWER: f64 = 2.0;
const NOISE: Duration = Duration::from_millis(3);
/// Growth of the process that is no leak: what allocators and pools keep once they were used.
const GROWTH: u64 = 96 << 20;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// A sequence that looks random and can be repeated.
struct Order(u64);

impl Order {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

fn attacks(silence: &Silence, dead: bool) -> Vec<Attack> {
    let of = |attack: &'static str, count: u64| Attack::of(attack, json!({"attack": attack, "count": count}));
    let short = Duration::from_secs(1);
    let mut attacks = vec![
        of("memory", 0),
        of("churn", 0),
        of("compute", 0),
        of("calls", 0),
        of("log", 0),
        of("argument", 20),
        of("output", 5_000_000),
        of("recursion", 0),
        of("handles", 0),
        of("streams", 0),
        of("random", 9),
        of("panic", 0),
        of("sleep", 1000).within(short),
        Attack::of("answer", json!({"attack": "answer", "target": "data/large"})),
        Attack::of("children", json!({"attack": "children", "target": "swarm"})).within(short * 2),
        Attack::of("sleepers", json!({"attack": "children", "target": "sleeper"})).within(short),
        silence.attack().within(short),
        Attack::form("memories", forms::memories(40)),
        Attack::form("large memories", forms::large_memories(8, 1000)),
        Attack::form("tables", forms::tables(60)),
        Attack::form("growing table", forms::growing_table(1_000_000)),
        Attack::form("instances", forms::instances(300)),
        Attack::form("deep recursion", forms::recursion(u64::MAX)),
        Attack::form("endless start", forms::endless_start()),
        Attack::form("large data", forms::large_data()),
    ];
    if dead {
        attacks.push(of("mounts", 0).within(short));
        attacks.push(
            Attack::of("dead file", json!({"attack": "answer", "target": "data/dead/file", "count": 1})).within(short),
        );
    }
    // None waits for longer than a moment: the next one is to come.
    attacks.into_iter().map(|attack| Attack { timeout: attack.timeout.min(short * 4), ..attack }).collect()
}

/// Honest steps, one after the other until `stop`: how long the median one takes.
async fn honest(field: &Field, stop: &AtomicBool) -> Duration {
    let attack = Attack::honest();
    let mut times = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        field.launch(&attack).await.unwrap();
        times.push(begin.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    times.sort();
    times[times.len() / 2]
}

/// Launches attacks for so long; answers how long honest steps took beside them, and how many attacks
/// there were.
async fn beside(field: &Arc<Field>, attacks: Arc<Vec<Attack>>, seed: u64, period: Duration) -> (Duration, usize) {
    let stop = Arc::new(AtomicBool::new(false));
    let launched = Arc::new(AtomicUsize::new(0));
    let attackers: Vec<_> = (0..ATTACKERS)
        .map(|attacker| {
            let (field, attacks, stop) = (Arc::clone(field), Arc::clone(&attacks), Arc::clone(&stop));
            let launched = Arc::clone(&launched);
            let mut order = Order(seed.wrapping_add(attacker as u64));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let attack = &attacks[order.below(attacks.len())];
                    field.outcome(attack).await;
                    launched.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let steps = tokio::spawn({
        let (field, stop) = (Arc::clone(field), Arc::clone(&stop));
        async move { honest(&field, &stop).await }
    });
    tokio::time::sleep(period).await;
    stop.store(true, Ordering::Relaxed);
    for attacker in attackers {
        attacker.await.unwrap();
    }
    (steps.await.unwrap(), launched.load(Ordering::Relaxed))
}

/// Bytes of memory and number of descriptors of this process.
fn resources() -> (u64, usize) {
    let status = procfs::process::Process::myself().unwrap().status().unwrap();
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
    (status.vmrss.unwrap_or_default() << 10, descriptors)
}

fn files_below(directory: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

async fn field(silence: &Silence) -> Field {
    let limits = Limits { cpu: Duration::from_millis(700), ..Limits::default() };
    let mut node = TestNode::new();
    node.node.facts.mounts = node.directory.path().join("mountinfo");
    node.sandbox = Sandbox::new(32, limits).unwrap();
    let data = node.directory.path().join("data");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("large"), vec![0; 1 << 20]).unwrap();
    Field::beside(node, &silence.address).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_survives_every_attack_at_once_and_honest_steps_hardly_notice() {
    let period = Duration::from_secs(number("FETTLE_HOSTILE_SECONDS", 10));
    let seed = number("FETTLE_HOSTILE_SEED", u64::from(std::process::id()));
    println!("FETTLE_HOSTILE_SEED={seed} FETTLE_HOSTILE_SECONDS={}", period.as_secs());
    let silence = Silence::start().await;
    let field = Arc::new(field(&silence).await);
    let dead = DeadMount::new(field.node.directory.path().join("data/dead")).ok();
    if let Some(dead) = &dead {
        dead.listed(&field.node.node.facts.mounts);
    }
    let hostile = Arc::new(attacks(&silence, dead.is_some()));
    // Everything once: what is compiled and pooled stays for good.
    for attack in hostile.iter() {
        field.outcome(attack).await;
    }
    let sleepers = vec![Attack::of("sleep", json!({"attack": "sleep", "count": 1}))];
    let (alone, _) = beside(&field, Arc::new(sleepers), seed, period.div_f64(4.0).max(Duration::from_secs(2))).await;
    let (beside_attacks, _) = beside(&field, Arc::clone(&hostile), seed, period.div_f64(4.0)).await;
    println!("median honest step: {alone:?} alone, {beside_attacks:?} in the first quarter");
    settle(&field).await;
    let (memory, descriptors) = resources();
    // What a later attempt would resume; the host's executor sweeps it when the task has failed.
    let begun = field.node.directory.path().join("data/hostile");
    let files = files_below(&begun);
    let (delayed, launched) = beside(&field, hostile, seed.wrapping_add(1), period.mul_f64(0.75)).await;
    drop(dead);
    settle(&field).await;
    let (memory_after, descriptors_after) = resources();
    println!(
        "median honest step: {alone:?} alone, {delayed:?} beside {launched} attacks; \
         {} MiB before, {} MiB after; {descriptors} and {descriptors_after} descriptors",
        memory >> 20,
        memory_after >> 20
    );
    assert!(launched > 0);
    assert!(delayed <= alone.mul_f64(SLOWER) + NOISE, "honest steps took {delayed:?} instead of {alone:?}");
    assert!(memory_after <= memory + GROWTH, "memory grew from {memory} to {memory_after} bytes");
    assert!(descriptors_after <= descriptors + 8, "descriptors grew from {descriptors} to {descriptors_after}");
    assert_eq!(files_below(&begun), files, "interrupted transfers begin files of other names each time");
    assert_eq!(field.outcome(&Attack::honest()).await, "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_loops_leave_one_processor_to_everybody_else() {
    let silence = Silence::start().await;
    let field = Arc::new(field(&silence).await);
    let attack = |name, count| vec![Attack::of(name, json!({"attack": name, "count": count}))];
    let period = Duration::from_secs(3);
    let (alone, _) = beside(&field, Arc::new(attack("sleep", 1)), 0, period).await;
    let (delayed, _) = beside(&field, Arc::new(attack("compute", 0)), 0, period).await;
    println!("median honest step: {alone:?} alone, {delayed:?} beside loops");
    assert!(delayed <= alone.mul_f64(SLOWER) + NOISE, "honest steps took {delayed:?} instead of {alone:?}");
}

/// Waits until nothing of the attacks is left.
async fn settle(field: &Field) {
    let mark = field.node.attempt();
    eventually("every child is gone", || marked_processes(&mark) == 0).await;
    let blocking = &field.node.node.queues.blocking;
    // The one thread that asks the dead mount, and one for each file that was asked for there.
    eventually("threads come back", || blocking.abandoned() <= fettle_host::blocking::THREADS).await;
    eventually("every place is free", || field.node.sandbox.free_places() == (32, 8)).await;
}
