//! Operations of one no-op step through one plane and one host, both processes of their own, on SQLite and on
//! PostgreSQL: at 100 a second, then as many as go. The floor is the same verbs on the store alone.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot measure should stop")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use fettle_model::{catalog::Catalog, digest::Digest, document, plan, task::TaskOutcome};
use fettle_postgres_cluster::Cluster;
use fettle_store::{Store, laws::fixture, node::Node, operation::NewOperation, task::Report};
use fettle_store_postgres::PostgresStore;
use fettle_store_sqlite::SqliteStore;
use fettle_tests::{Fleet, Process, Programs, Supply, fleet::On};
use serde_json::json;

const PROGRAMS: Programs =
    Programs { host: env!("CARGO_BIN_EXE_host-under-test"), plane: env!("CARGO_BIN_EXE_plane-under-test") };
const DEFINITION: &str = "operation_type: bench.noop\nversion: v1\nbackend_type: node_agent\ninput_schema: { type: object }\nsteps: [{ id: nothing, uses: noop@v1 }]\n";
const SUSTAINED: Duration = Duration::from_secs(60);
const CLIENTS: usize = 32;
const TOGETHER: usize = 16;
const SLOTS: usize = CLIENTS * TOGETHER / 2;
const RATE: u32 = 100;
const PACED: usize = 1000;

/// Insists that an operation that is over has succeeded.
async fn succeeded(fleet: &Fleet, id: &str) {
    let operation = fleet.operation(id).await.unwrap();
    assert_eq!(operation["status"], "succeeded", "{operation:#}");
}

async fn submit(fleet: &Fleet, key: String) -> String {
    let (status, answer) = fleet.try_submit("bench.noop", &json!({}), &key).await.unwrap();
    assert!(status.is_success(), "{answer:#}");
    answer["operation_id"].as_str().unwrap().to_owned()
}

/// Operations per second while every client submits a few, waits for the last of those before them, and goes on.
async fn throughput(fleet: &Arc<Fleet>) -> f64 {
    let begin = Instant::now();
    let clients = (0..CLIENTS).map(|client| {
        let fleet = Arc::clone(fleet);
        tokio::spawn(async move {
            let (mut done, mut before) = (0, None);
            while begin.elapsed() < SUSTAINED {
                let mut last = String::new();
                for _ in 0..TOGETHER {
                    last = submit(&fleet, format!("throughput-{client}-{done}")).await;
                    done += 1;
                }
                if let Some(before) = before.replace(last) {
                    fleet.follow(&before).await;
                    succeeded(&fleet, &before).await;
                }
            }
            if let Some(last) = before {
                fleet.follow(&last).await;
                succeeded(&fleet, &last).await;
            }
            done
        })
    });
    let mut done = 0_u32;
    for client in clients.collect::<Vec<_>>() {
        done += client.await.unwrap();
    }
    f64::from(done) / begin.elapsed().as_secs_f64()
}

/// Milliseconds from submitting until a client that follows the events has seen the end. A client that asked again and
/// again would take more of the machine than the plane does.
async fn latencies(fleet: &Arc<Fleet>) -> Vec<f64> {
    let mut every = tokio::time::interval(Duration::from_secs(1) / RATE);
    let mut running = Vec::new();
    for number in 0..PACED {
        every.tick().await;
        let fleet = Arc::clone(fleet);
        running.push(tokio::spawn(async move {
            let begin = Instant::now();
            let id = submit(&fleet, format!("paced-{number}")).await;
            fleet.follow(&id).await;
            (id, begin.elapsed().as_secs_f64() * 1000.0)
        }));
    }
    let mut milliseconds = Vec::new();
    for operation in running {
        let (id, took) = operation.await.unwrap();
        succeeded(fleet, &id).await;
        milliseconds.push(took);
    }
    milliseconds.sort_by(f64::total_cmp);
    milliseconds
}

/// The floor: the verbs of the same operations by as many workers as operations are on their way, without HTTP, dispatch
/// and host.
async fn floor(store: Arc<dyn Store>) -> f64 {
    let node = fixture::node(&*store, 1, 1000).await;
    store.ensure_project(fixture::project("demo"), fixture::when(1)).await.unwrap();
    let begin = Instant::now();
    let workers = (0..CLIENTS * TOGETHER).map(|worker| {
        let (store, node) = (Arc::clone(&store), node.clone());
        tokio::spawn(async move {
            let mut done = 0;
            while begin.elapsed() < SUSTAINED / 4 {
                let number = worker as u128 * 1_000_000 + u128::from(done);
                one_operation(&*store, &node, number).await;
                done += 1;
            }
            done
        })
    });
    let mut done = 0_u32;
    for worker in workers.collect::<Vec<_>>() {
        done += worker.await.unwrap();
    }
    f64::from(done) / begin.elapsed().as_secs_f64()
}

/// Created, leased, acknowledged, reported and ended: five commits, as through a plane.
async fn one_operation(store: &dyn Store, node: &Node, number: u128) {
    let definition = document::read(DEFINITION).unwrap();
    let component = format!("localhost:5000/noop@{}", Digest::of(b"noop"));
    let steps = [("noop@v1".parse().unwrap(), component.parse().unwrap())].into();
    let plan = plan::plan(fixture::sources("localhost:5000", "1"), &definition, &Catalog { steps }, json!({})).unwrap();
    let new = fixture::new_operation(number, node, Some(&number.to_string()));
    let plan_digest = plan.digest().unwrap();
    let new = NewOperation { plan: Arc::new(plan), plan_digest, ..new };
    store.create_operation(new, fixture::when(1)).await.unwrap();
    // Whichever operation it is of: each worker ends as many as it begins.
    let lease = loop {
        if let Some(lease) = fixture::lease_some(store, node, 1, 2).await.pop() {
            break lease;
        }
    };
    let key = fixture::key(node, &lease);
    store.acknowledge_lease(key, fixture::at(600), fixture::when(3)).await.unwrap();
    let events = [fixture::started("nothing"), fixture::succeeded("nothing", json!({}))];
    let reports = (1..).zip(events).map(|(sequence, event)| Report { lease: key, sequence, event });
    store.apply_reports(reports.collect(), fixture::when(4)).await.unwrap();
    store.finish_task(key, TaskOutcome::Succeeded, fixture::when(5)).await.unwrap();
}

/// What plane and host have used of the processors so far.
fn processor_seconds(fleet: &Fleet) -> Vec<(&'static str, f64)> {
    let of = |process: Option<&Process>| process.map_or(0.0, Process::processor_seconds);
    vec![("plane", of(fleet.planes.first())), ("host", of(fleet.host.as_ref()))]
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn print(figure: &str, value: f64, unit: &str, floor: Option<f64>) {
    println!(
        "{}",
        json!({"bench": "dispatch", "figure": figure, "value": round(value), "unit": unit,
            "baseline": floor.map(|_| "the same verbs on the store alone"), "baseline_value": floor.map(round),
            "ratio": floor.map(|floor| round(value / floor))})
    );
}

async fn through_plane_and_host(supply: &Supply, database: &str, on: On, floor: f64) {
    let mut fleet = Fleet::prepare_on(PROGRAMS, &supply.trust, on).await;
    // As many as half of what is on its way, so that it is the plane and not the one host that is measured.
    fleet.host_arguments = vec!["--slots".to_owned(), SLOTS.to_string(), "--concurrency".to_owned(), "2".to_owned()];
    fleet.host_environment = vec![("RUST_LOG".to_owned(), "warn".to_owned())];
    fleet.planes.start().await;
    fleet.start_host();
    fleet.node_online().await;
    fleet.register(&supply.publish(DEFINITION, "revision: 1\n").await).await;
    let fleet = Arc::new(fleet);
    let warm = submit(&fleet, "warm".to_owned()).await;
    fleet.follow(&warm).await;
    succeeded(&fleet, &warm).await;
    // First: a minute of all that goes leaves a database with much to write, and whoever comes next waits for its disk.
    let milliseconds = latencies(&fleet).await;
    print(&format!("{database}_p50_at_100_per_s"), milliseconds[milliseconds.len() / 2], "ms", None);
    print(&format!("{database}_p99_at_100_per_s"), milliseconds[milliseconds.len() * 99 / 100], "ms", None);
    let before = processor_seconds(&fleet);
    let rate = throughput(&fleet).await;
    print(&format!("{database}_ops_per_s"), rate, "1/s", Some(floor));
    let operations = rate * SUSTAINED.as_secs_f64();
    for ((name, before), (_, after)) in before.into_iter().zip(processor_seconds(&fleet)) {
        print(&format!("{database}_{name}_cpu_per_op"), (after - before) * 1000.0 / operations, "ms", None);
    }
}

#[tokio::main]
async fn main() {
    let supply = Supply::with(&["noop"]).await;
    let named: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_wanted = |database: &str| named.is_empty() || named.iter().any(|name| name == database);
    if is_wanted("sqlite") {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&directory.path().join("plane.db"), Arc::new(())).await.unwrap();
        through_plane_and_host(&supply, "sqlite", On::Sqlite, floor(Arc::new(store)).await).await;
    }
    if is_wanted("postgres") {
        on_postgres(&supply).await;
    }
}

async fn on_postgres(supply: &Supply) {
    let Some(cluster) = Cluster::start() else {
        eprintln!("PostgreSQL is not installed: its figures are left out");
        return;
    };
    let address = cluster.url("postgres").parse().unwrap();
    let store = PostgresStore::open(&address, Arc::new(())).await.unwrap();
    let bare = floor(Arc::new(store)).await;
    let on = On::Postgres { cluster: Cluster::start().unwrap(), planes: 1 };
    through_plane_and_host(supply, "postgres", on, bare).await;
}
