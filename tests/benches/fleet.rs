//! Ten thousand nodes on one plane: each with its own certificate and connection, its own stream of leases, and a heartbeat every ten
//! seconds. What that costs the plane, and how long after its submission a task reaches its node.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot measure should stop")]

#[path = "../../plane/tests/it/support/member.rs"]
#[expect(dead_code, reason = "shared with tests")]
mod member;

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use fettle_tests::{Fleet, Process, Programs, Supply};
use fettle_wire::{
    convert,
    node::{
        FailRequest, HeartbeatRequest, PullFree, PullHello, PullRequest, RegisterRequest, pull_request, pull_response,
    },
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use member::Member;

const PROGRAMS: Programs =
    Programs { host: env!("CARGO_BIN_EXE_host-under-test"), plane: env!("CARGO_BIN_EXE_plane-under-test") };
const DEFINITION: &str = "operation_type: bench.wake\nversion: v1\nbackend_type: node_agent\ninput_schema: { type: object }\nsteps: [{ id: nothing, uses: noop@v1 }]\n";
const NODES: usize = 10_000;
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Nodes that join at the same time.
const TOGETHER: usize = 64;
/// How long nothing happens but heartbeats.
const QUIET: Duration = Duration::from_secs(30);
/// Operations, on as many nodes that are far from each other.
const WAKE_UPS: usize = 1000;
const RATE: u32 = 20;
/// A wake-up that takes longer is missed.
const MISSED: Duration = Duration::from_secs(30);
const FAILURE: &str = r#"{"class":"permanent","code":"bench.over","message":"this node only measures"}"#;

/// When each operation reached its node.
type Arrivals = Arc<Mutex<HashMap<String, Instant>>>;

/// One node: joins, holds its stream, beats, and gives back what it is given.
async fn node(plane: SocketAddr, join: Arc<str>, number: usize, arrivals: Arrivals, ready: mpsc::Sender<()>) {
    let name = format!("node-{number}");
    let register = RegisterRequest { name, host_version: "1.0.0".to_owned(), slots: 4, ..RegisterRequest::default() };
    let member = Member::join(plane, &join, register).await.unwrap();
    let (node_id, mut client) = (member.node_id.clone(), member.client(plane));
    let (requests, outgoing) = mpsc::channel(4);
    let hello = PullHello { node_id: node_id.clone(), free_slots: 4, challenge: vec![7; 32], ..PullHello::default() };
    requests.send(PullRequest { request: Some(pull_request::Request::Hello(hello)) }).await.unwrap();
    let mut leases = client.pull(ReceiverStream::new(outgoing)).await.unwrap().into_inner();
    ready.send(()).await.unwrap();
    // Spread evenly: a fleet does not start in one moment.
    let first =
        tokio::time::Instant::now() + HEARTBEAT.mul_f64(f64::from(u32::try_from(number % 1000).unwrap()) / 1000.0);
    let mut beats = tokio::time::interval_at(first, HEARTBEAT);
    loop {
        tokio::select! {
            _ = beats.tick() => {
                let beat = client.heartbeat(HeartbeatRequest { node_id: node_id.clone(), clock_milliseconds: 0 }).await;
                // The plane is gone: the measurement is over.
                if beat.is_err() {
                    return;
                }
            }
            message = leases.message() => {
                let Ok(Some(message)) = message else { return };
                let Some(pull_response::Response::Lease(lease)) = message.response else { continue };
                let arrived = Instant::now();
                let task = convert::assignment(&lease).unwrap().task;
                arrivals.lock().unwrap().insert(task.operation_id, arrived);
                let over = FailRequest {
                    node_id: node_id.clone(),
                    task_id: lease.task_id,
                    epoch: lease.epoch,
                    failure: FAILURE.to_owned(),
                    step_id: String::new(),
                };
                // As above: the measurement may be over.
                if client.fail(over).await.is_err() {
                    return;
                }
                let free = PullRequest { request: Some(pull_request::Request::Free(PullFree { free_slots: 4 })) };
                requests.send(free).await.unwrap();
            }
        }
    }
}

/// Submits an operation on every so many nodes; milliseconds of each submission, and from its begin to its arrival.
async fn wake_ups(fleet: &Arc<Fleet>, arrivals: &Arrivals) -> (Vec<f64>, Vec<f64>) {
    let mut every = tokio::time::interval(Duration::from_secs(1) / RATE);
    let mut submitted = Vec::new();
    for number in 0..WAKE_UPS {
        every.tick().await;
        let fleet = Arc::clone(fleet);
        submitted.push(tokio::spawn(async move {
            let begin = Instant::now();
            let name = format!("node-{}", number * (NODES / WAKE_UPS));
            let (status, answer) = fleet.try_submit_on(&name, "bench.wake", &format!("wake-{number}")).await.unwrap();
            assert!(status.is_success(), "{answer:#}");
            (answer["operation_id"].as_str().unwrap().to_owned(), begin, begin.elapsed())
        }));
    }
    let (mut submissions, mut latencies) = (Vec::new(), Vec::new());
    for operation in submitted {
        let (id, begin, taken) = operation.await.unwrap();
        submissions.push(taken.as_secs_f64() * 1000.0);
        loop {
            if let Some(arrived) = arrivals.lock().unwrap().get(&id) {
                latencies.push(arrived.duration_since(begin).as_secs_f64() * 1000.0);
                break;
            }
            if begin.elapsed() > MISSED {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    submissions.sort_by(f64::total_cmp);
    latencies.sort_by(f64::total_cmp);
    (submissions, latencies)
}

fn print(figure: &str, value: f64, unit: &str, baseline: Option<(&str, f64)>) {
    let round = |value: f64| (value * 1000.0).round() / 1000.0;
    println!(
        "{}",
        json!({"bench": "fleet", "figure": figure, "value": round(value), "unit": unit,
            "baseline": baseline.map(|(name, _)| name), "baseline_value": baseline.map(|(_, value)| round(value)),
            "ratio": baseline.map_or(Value::Null, |(_, baseline)| json!(round(value / baseline)))})
    );
}

fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

#[tokio::main]
#[expect(clippy::cast_precision_loss, reason = "thousands")]
async fn main() {
    let supply = Supply::with(&["noop"]).await;
    let mut fleet = Fleet::prepare(PROGRAMS, &supply.trust).await;
    fleet.planes.heartbeat = HEARTBEAT;
    fleet.planes.start().await;
    fleet.register(&supply.publish(DEFINITION, "revision: 1\n").await).await;
    let join: Arc<str> = fleet.join_token(u32::try_from(NODES).unwrap()).await.into();
    let plane: SocketAddr = fleet.planes.node_address().parse().unwrap();
    let memory = |fleet: &Fleet| fleet.planes.first().map_or(0.0, Process::resident_mebibytes);
    let processor = |fleet: &Fleet| fleet.planes.first().map_or(0.0, Process::processor_seconds);
    let empty = memory(&fleet);
    let arrivals = Arrivals::default();
    let (ready, mut is_ready) = mpsc::channel(64);
    for number in 0..NODES {
        tokio::spawn(node(plane, Arc::clone(&join), number, Arc::clone(&arrivals), ready.clone()));
        // So many at once that the plane has always something to do.
        if number >= TOGETHER {
            is_ready.recv().await.unwrap();
        }
    }
    for _ in 0..TOGETHER {
        is_ready.recv().await.unwrap();
    }
    let fleet = Arc::new(fleet);
    let before = processor(&fleet);
    tokio::time::sleep(QUIET).await;
    let quiet = (processor(&fleet) - before) / QUIET.as_secs_f64();
    print("quiet_processors", quiet, "cores", None);
    print("memory", memory(&fleet), "MiB", Some(("the plane without nodes", empty)));
    print("memory_per_node", (memory(&fleet) - empty) * 1024.0 / NODES as f64, "KiB", None);
    let (submissions, latencies) = wake_ups(&fleet, &arrivals).await;
    let asked = percentile(&submissions, 99);
    print(
        "p50_wake_up",
        percentile(&latencies, 50),
        "ms",
        Some(("the submission's own answer", percentile(&submissions, 50))),
    );
    print("p99_wake_up", percentile(&latencies, 99), "ms", Some(("the submission's own answer", asked)));
    print("missed", (WAKE_UPS - latencies.len()) as f64, "wake-ups", None);
}
