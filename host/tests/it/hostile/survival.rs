//! All attacks together, in random order, beside honest steps: the host goes on, nothing is left behind,
//! and honest steps hardly notice.
//!
//! `FETTLE_HOSTILE_SECONDS` says for how long (10 when it is not set, 120 in `cargo xtask test --all`),
//! `FETTLE_HOSTILE_SEED` in which order.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use fettle_host::{
    mutation::{Protection, without},
    sandbox::{Limits, ON_DEMAND_PART, Sandbox, engine::layout, limits::STACK},
};
use serde_json::json;
use tokio::sync::Mutex;

use super::{
    attacks::{Attack, Field},
    beside::{Computed, Tally, Times, beside, honest},
    common::{self, TestNode, eventually, marked_processes},
    dead_mount::DeadMount,
    forms,
    leak::{Sample, left_by_each},
    queues::Silence,
};

/// How much slower honest steps may get.
const SLOWER: f64 = 2.0;
/// Percent of the machine that other programs may take while times are judged.
const OTHERS: u64 = 10;
/// How often the attackers pause, so that what is left of them can be counted.
const ROUNDS: u32 = 6;
/// Attempts at once, and how many of them beside the pool.
const PLACES: (usize, usize) = (16, 16 / ON_DEMAND_PART);
/// Bytes of the heap that an attack may leave: less than the smallest attempt takes.
const LEFT: f64 = 4096.0;
/// Bytes that the pool keeps when each of its places was used to the full: stacks, and the beginning of each
/// memory and table.
const POOL: u64 =
    (PLACES.0 * (2 * STACK + layout::MEMORIES as usize * (256 << 10) + layout::TABLES as usize * (16 << 10))) as u64;

/// What takes time has the machine to itself, and so has a test that takes a protection out.
static TURN: Mutex<()> = Mutex::const_new(());

/// The attack that leaves a thread behind each time, for as long as the dead mount is there.
const DEAD_FILE: &str = "dead file";

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
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
            Attack::of(DEAD_FILE, json!({"attack": "answer", "target": "data/dead/file", "count": 1})).within(short),
        );
    }
    // None waits for longer than a moment: the next one is to come.
    attacks.into_iter().map(|attack| Attack { timeout: attack.timeout.min(short * 4), ..attack }).collect()
}

/// What this process holds.
struct Held {
    /// Bytes that were allocated and not freed.
    heap: u64,
    /// Bytes of memory that are no file's, with all that pools keep for later.
    memory: u64,
    descriptors: usize,
}

impl Held {
    #[expect(unsafe_code, reason = "only the allocator itself can say what is in use, and give back what is not")]
    fn now() -> Self {
        // Pages that it keeps for later are as many as chance wants, and no attack has taken them.
        // SAFETY: it gives pages back that nobody uses, under its own locks.
        unsafe { libc::malloc_trim(0) };
        // SAFETY: it reads the allocator's own counts, under its locks.
        let counts = unsafe { libc::mallinfo2() };
        let status = procfs::process::Process::myself().unwrap().status().unwrap();
        Self {
            heap: (counts.uordblks + counts.hblkhd) as u64,
            memory: status.rssanon.unwrap() << 10,
            descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count(),
        }
    }
}

/// Names of all files below a directory, but for what is below a dead mount: nobody could tell.
fn files_below(directory: &Path) -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { [path].into() }).collect()
}

async fn field(silence: &Silence) -> Field {
    let limits = Limits { cpu: Duration::from_millis(700), ..Limits::default() };
    let mut node = TestNode::new();
    node.node.facts.mounts = node.directory.path().join("mountinfo");
    node.sandbox = Sandbox::new(u32::try_from(PLACES.0).unwrap(), limits).unwrap();
    let data = node.directory.path().join("data");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("large"), vec![0; 1 << 20]).unwrap();
    Field::beside(node, &silence.address).await
}

/// One round: honest steps alone, the same beside attackers, and what is left.
struct Round {
    alone: Times,
    beside: Times,
}

async fn round(field: &Arc<Field>, silence: &Silence, seed: u64, period: Duration, tally: &Tally) -> Round {
    let dead = DeadMount::new(field.node.directory.path().join("data/dead")).ok();
    if let Some(dead) = &dead {
        dead.listed(&field.node.node.facts.mounts);
    }
    // Whoever asks the dead mount first waits in vain; from then on it is not asked again.
    let asks = Attack::of("mounts", json!({"attack": "mounts"}));
    let (alone, _) = tokio::join!(honest(field, period.div_f64(2.0)), field.outcome(&asks));
    let dead_files = tally.of(DEAD_FILE);
    let beside = beside(field, &Arc::new(attacks(silence, dead.is_some())), seed, period, tally).await;
    let waiting = tally.of(DEAD_FILE) - dead_files;
    settle(field, dead.as_ref().map_or(0, |_| 1 + waiting)).await;
    drop(dead);
    settle(field, 0).await;
    Round { alone, beside }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_survives_every_attack_at_once_and_honest_steps_hardly_notice() {
    let _turn = TURN.lock().await;
    let period = Duration::from_secs(number("FETTLE_HOSTILE_SECONDS", 10)) / ROUNDS;
    let seed = number("FETTLE_HOSTILE_SEED", u64::from(std::process::id()));
    println!("FETTLE_HOSTILE_SEED={seed} FETTLE_HOSTILE_SECONDS={}", (period * ROUNDS).as_secs());
    let silence = Silence::start().await;
    let field = Arc::new(field(&silence).await);
    // Everything once: what is compiled and pooled stays for good.
    for attack in &attacks(&silence, false) {
        field.outcome(attack).await;
    }
    let (tally, mut held, mut files) = (Tally::default(), Vec::new(), Vec::new());
    let (mut alone, mut beside) = (Times::default(), Times::default());
    let machine = Computed::now();
    for number in 0..ROUNDS {
        let round = round(&field, &silence, seed.wrapping_add(u64::from(number)), period, &tally).await;
        alone.add(round.alone);
        beside.add(round.beside);
        held.push((tally.all(), Held::now()));
        files.push(files_below(field.node.directory.path()));
    }
    println!("{} attacks", tally.all());
    at_most_twice_as_slow(&alone, &beside, &machine);
    nothing_is_left(&held);
    // Interrupted transfers begin files that a later attempt would resume; the host's executor sweeps them.
    let new: Vec<_> = files.last().unwrap().difference(&files[0]).collect();
    assert!(new.is_empty(), "each round leaves files: {new:?}");
    assert_eq!(field.outcome(&Attack::honest()).await, "ok");
}

/// Judges what the process held after so many attacks, round by round.
fn nothing_is_left(held: &[(usize, Held)]) {
    for (attacks, Held { heap, memory, descriptors }) in held {
        println!(
            "after {attacks} attacks: {} KiB of heap, {} MiB, {descriptors} descriptors",
            heap >> 10,
            memory >> 20
        );
    }
    let samples: Vec<Sample> =
        held.iter().map(|(attacks, held)| Sample { attacks: *attacks, held: held.heap }).collect();
    let left = left_by_each(&samples);
    println!("{left:.0} bytes left by each attack");
    assert!(left <= LEFT, "each attack leaves {left:.0} bytes of the heap");
    let ((_, first), (_, last)) = (held.first().unwrap(), held.last().unwrap());
    let grown = last.memory.saturating_sub(first.memory);
    assert!(grown <= POOL, "{grown} bytes of memory were taken, and the pool keeps {POOL} at most");
    assert!(last.descriptors <= first.descriptors, "{} descriptors became {}", first.descriptors, last.descriptors);
}

/// Where other programs take the processors that are left to honest steps, nothing can be said.
fn at_most_twice_as_slow(alone: &Times, beside: &Times, machine: &Computed) {
    let others = machine.others_since();
    let seen = format!("alone: {alone}; beside attacks: {beside}; other programs had {others} % of the machine");
    println!("{seen}");
    if beside.median() > alone.median().mul_f64(SLOWER) {
        assert!(others > OTHERS, "{seen}");
        common::skip(&format!("other programs take too much of this machine to measure: {seen}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_loops_leave_one_processor_to_everybody_else() {
    let _turn = TURN.lock().await;
    let silence = Silence::start().await;
    let field = Arc::new(field(&silence).await);
    let loops = Arc::new(vec![Attack::of("compute", json!({"attack": "compute", "count": 0}))]);
    let (period, tally) = (Duration::from_secs(3), Tally::default());
    let machine = Computed::now();
    let alone = honest(&field, period).await;
    at_most_twice_as_slow(&alone, &beside(&field, &loops, 0, period, &tally).await, &machine);

    let _without = without(Protection::LongAttemptsTakeTurns);
    let delayed = beside(&field, &loops, 0, period, &tally).await;
    println!("beside loops that take no turns: {delayed}");
    assert!(delayed.median() > alone.median().mul_f64(SLOWER), "{delayed}, and {alone}: the turns keep nothing off");
}

/// Waits until nothing of the attacks is left but threads that a dead mount holds, and they are no more
/// than so many.
async fn settle(field: &Field, held: usize) {
    let mark = field.node.attempt();
    eventually("every child is gone", || marked_processes(&mark) == 0).await;
    let blocking = &field.node.node.queues.blocking;
    eventually("every thread but those of the dead mount comes back", || blocking.abandoned() <= held).await;
    eventually("every place is free", || field.node.sandbox.free_places() == PLACES).await;
}
