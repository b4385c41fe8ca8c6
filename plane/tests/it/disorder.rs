//! Reports as a bad network carries them: several streams at once, each from the beginning, one ahead of the other,
//! some of them under a lease that is over.

use fettle_model::task::StepEvent;
use fettle_wire::node::{Lease, Verdict};
use serde_json::{Value, json};

use crate::support::{
    TestPlane,
    host::{FakeHost, Reports, logged, progress, started, succeeded},
    plane,
};

/// Orders that are tried. A failure names the seed of its own.
const SEEDS: u64 = 12;

/// Streams that carry the same reports.
const STREAMS: usize = 3;

/// Everything that a host tells of `test.noop@v1`.
fn told() -> Vec<StepEvent> {
    let of = |step| {
        [started(step, 1), progress(step, 50), logged(step, &["half of it"]), succeeded(step, json!({ "of": step }))]
    };
    [of("first"), of("second")].into_iter().flatten().collect()
}

/// A stream and how far it is.
struct Late {
    reports: Reports,
    said: usize,
}

/// Says the next report of this stream; none when it has said all.
async fn say(late: &mut Late, lease: &Lease) -> Option<Verdict> {
    let events = told();
    let event = events.get(late.said)?;
    late.said += 1;
    Some(late.reports.say(lease, late.said as u64, event).await)
}

async fn streams(host: &mut FakeHost) -> Vec<Late> {
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        streams.push(Late { reports: host.reports().await, said: 0 });
    }
    streams
}

/// Says everything on every stream, in an order of chance.
async fn say_all(random: &mut fastrand::Rng, streams: &mut Vec<Late>, lease: &Lease, expected: Verdict, seed: u64) {
    while !streams.is_empty() {
        let chosen = random.usize(0..streams.len());
        match say(&mut streams[chosen], lease).await {
            Some(verdict) => assert_eq!(verdict, expected, "seed {seed}"),
            None => drop(streams.swap_remove(chosen)),
        }
    }
}

/// How often the events of an operation tell that a step is over.
async fn told_over(plane: &TestPlane, path: &str, step: &str) -> usize {
    let events = plane.get(&format!("{path}/events?page_size=1000")).await;
    let over = |event: &&Value| {
        event["payload"]["current_step_name"] == step && event["payload"]["step_status"] == "succeeded"
    };
    events["items"].as_array().unwrap().iter().filter(over).count()
}

#[tokio::test]
async fn a_result_is_accepted_once_however_often_and_late_it_is_told() {
    let plane = plane().await;
    plane.with_definition().await;
    let mut host = plane.host("node-a", 1).await;
    for seed in 0..SEEDS {
        let mut random = fastrand::Rng::with_seed(seed);
        let path = plane.submitted("node-a").await;
        let mut pull = host.pull(&[], 1).await;
        let first = pull.lease().await;
        host.ack(&first).await.unwrap();
        let mut before = streams(&mut host).await;
        let mut cut = Vec::new();
        for _ in 0..random.usize(0..12) {
            let chosen = random.usize(0..before.len());
            let verdict = say(&mut before[chosen], &first).await;
            assert_ne!(verdict, Some(Verdict::Stale), "seed {seed}");
            cut.extend(verdict);
        }
        // The host says that it holds nothing: its task is leased again, and the streams of before come late.
        let mut pull = host.pull(&[], 1).await;
        let second = pull.lease().await;
        assert_eq!((second.task_id.as_str(), second.epoch), (first.task_id.as_str(), first.epoch + 1), "seed {seed}");
        host.ack(&second).await.unwrap();
        let mut after = streams(&mut host).await;
        let half = random.usize(0..6);
        for _ in 0..half {
            assert_eq!(say(&mut after[0], &second).await, Some(Verdict::Accepted), "seed {seed}");
        }
        say_all(&mut random, &mut before, &first, Verdict::Stale, seed).await;
        say_all(&mut random, &mut after, &second, Verdict::Accepted, seed).await;
        assert_eq!(host.complete(&first, false).await.unwrap(), Verdict::Stale, "seed {seed}");
        for _ in 0..2 {
            assert_eq!(host.complete(&second, false).await.unwrap(), Verdict::Accepted, "seed {seed}");
        }
        let shown = plane.get(&path).await;
        assert_eq!(shown["status"], "succeeded", "seed {seed}: {shown}");
        for step in ["first", "second"] {
            assert_eq!(told_over(&plane, &path, step).await, 1, "seed {seed}: {step}");
        }
    }
}
