//! Operations of one no-op step through one plane and one host, both processes of their own: as many as
//! go, then at 50 a second.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot measure should stop")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use fettle_tests::{Fleet, Programs, Supply};
use serde_json::{Value, json};

const PROGRAMS: Programs =
    Programs { host: env!("CARGO_BIN_EXE_host-under-test"), plane: env!("CARGO_BIN_EXE_plane-under-test") };
const DEFINITION: &str = "operation_type: bench.noop\nversion: v1\nbackend_type: node_agent\ninput_schema: { type: object }\nsteps: [{ id: nothing, uses: noop@v1 }]\n";
const OPERATIONS: usize = 1000;
const CLIENTS: usize = 16;
const RATE: u32 = 50;
const PACED: usize = 500;

async fn finished(fleet: &Fleet, id: &str) -> Value {
    loop {
        if let Some(operation) = fleet.operation(id).await
            && matches!(operation["status"].as_str(), Some("succeeded" | "failed"))
        {
            assert_eq!(operation["status"], "succeeded", "{operation:#}");
            return operation;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn submit(fleet: &Fleet, key: String) -> String {
    let (status, answer) = fleet.try_submit("bench.noop", &json!({}), &key).await.unwrap();
    assert!(status.is_success(), "{answer:#}");
    answer["operation_id"].as_str().unwrap().to_owned()
}

/// Waits for the last of many: the plane takes them in order, so hardly anything is asked twice.
async fn throughput(fleet: &Arc<Fleet>) -> f64 {
    let next = Arc::new(AtomicUsize::new(0));
    let begin = Instant::now();
    let clients = (0..CLIENTS).map(|_| {
        let (fleet, next) = (Arc::clone(fleet), Arc::clone(&next));
        tokio::spawn(async move {
            let mut ids = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= OPERATIONS {
                    return ids;
                }
                ids.push(submit(&fleet, format!("throughput-{number}")).await);
            }
        })
    });
    let mut ids = Vec::new();
    for client in clients.collect::<Vec<_>>() {
        ids.extend(client.await.unwrap());
    }
    for id in ids.iter().rev() {
        finished(fleet, id).await;
    }
    OPERATIONS as f64 / begin.elapsed().as_secs_f64()
}

/// Milliseconds from submit to the end as the plane recorded both.
async fn latencies(fleet: &Arc<Fleet>) -> Vec<f64> {
    let mut every = tokio::time::interval(Duration::from_secs(1) / RATE);
    let mut running = Vec::new();
    for number in 0..PACED {
        every.tick().await;
        let fleet = Arc::clone(fleet);
        running.push(tokio::spawn(async move {
            let begin = Instant::now();
            let id = submit(&fleet, format!("paced-{number}")).await;
            finished(&fleet, &id).await;
            begin.elapsed().as_secs_f64() * 1000.0
        }));
    }
    let mut milliseconds = Vec::new();
    for operation in running {
        milliseconds.push(operation.await.unwrap());
    }
    milliseconds.sort_by(f64::total_cmp);
    milliseconds
}

fn print(figure: &str, value: f64, unit: &str) {
    let value = (value * 1000.0).round() / 1000.0;
    println!(
        "{}",
        json!({"bench": "dispatch", "figure": figure, "value": value, "unit": unit, "baseline": null, "baseline_value": null, "ratio": null})
    );
}

#[tokio::main]
async fn main() {
    let supply = Supply::with(&["noop"]).await;
    let mut fleet = Fleet::prepare(PROGRAMS, &supply.trust).await;
    fleet.host_arguments = vec!["--slots".to_owned(), "32".to_owned(), "--concurrency".to_owned(), "2".to_owned()];
    fleet.host_environment = vec![("RUST_LOG".to_owned(), "warn".to_owned())];
    fleet.start_plane().await;
    fleet.start_host();
    fleet.node_online().await;
    fleet.register(&supply.publish(DEFINITION, "revision: 1\n").await).await;
    let fleet = Arc::new(fleet);
    let warm = submit(&fleet, "warm".to_owned()).await;
    finished(&fleet, &warm).await;
    print("sqlite_ops_per_s", throughput(&fleet).await, "1/s");
    let milliseconds = latencies(&fleet).await;
    print("p50_at_50_per_s", milliseconds[milliseconds.len() / 2], "ms");
    print("p99_at_50_per_s", milliseconds[milliseconds.len() * 99 / 100], "ms");
}
