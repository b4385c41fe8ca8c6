//! One operation of a thousand steps that do nothing, through plane and host: what a step costs when it is one of many.
//! The baseline is the same number of operations of one step, one after another.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot measure should stop")]

use std::{fmt::Write as _, time::Instant};

use fettle_tests::{Fleet, Programs, Supply};
use serde_json::json;

const PROGRAMS: Programs =
    Programs { host: env!("CARGO_BIN_EXE_host-under-test"), plane: env!("CARGO_BIN_EXE_plane-under-test") };
const STEPS: usize = 1000;
/// Steps that may run at the same time.
const WIDTH: usize = 10;
/// Runs, of which the median is told.
const RUNS: usize = 7;
const ALONE: usize = 100;

/// Each step needs the one a row above it.
fn definition(operation_type: &str, steps: usize) -> String {
    let mut text = format!(
        "operation_type: {operation_type}\nversion: v1\nbackend_type: node_agent\ninput_schema: {{ type: object }}\nsteps:\n"
    );
    for number in 0..steps {
        let needs = number.checked_sub(WIDTH).map(|above| format!(", needs: [step_{above}]")).unwrap_or_default();
        writeln!(text, "  - {{ id: step_{number}, uses: noop@v1{needs} }}").unwrap();
    }
    text
}

/// Milliseconds from submission to the end.
async fn run(fleet: &Fleet, operation_type: &str, key: String) -> f64 {
    let begin = Instant::now();
    let (status, answer) = fleet.try_submit(operation_type, &json!({}), &key).await.unwrap();
    assert!(status.is_success(), "{answer:#}");
    let operation = fleet.ended(answer["operation_id"].as_str().unwrap()).await;
    assert_eq!(operation["status"], "succeeded", "{operation:#}");
    begin.elapsed().as_secs_f64() * 1000.0
}

async fn median(fleet: &Fleet, operation_type: &str, runs: usize) -> f64 {
    let mut taken = Vec::new();
    for number in 0..=runs {
        taken.push(run(fleet, operation_type, format!("{operation_type}-{number}")).await);
    }
    // The first one compiles and connects.
    let taken = &mut taken[1..];
    taken.sort_by(f64::total_cmp);
    taken[taken.len() / 2]
}

#[tokio::main]
async fn main() {
    let supply = Supply::with(&["noop"]).await;
    let mut fleet = Fleet::prepare(PROGRAMS, &supply.trust).await;
    fleet.host_arguments = ["--concurrency", "2"].map(str::to_owned).to_vec();
    fleet.host_environment = vec![("RUST_LOG".to_owned(), "warn".to_owned())];
    fleet.planes.start().await;
    fleet.start_host();
    fleet.node_online().await;
    for (operation_type, steps) in [("bench.graph", STEPS), ("bench.alone", 1)] {
        fleet.register(&supply.publish(&definition(operation_type, steps), "revision: 1\n").await).await;
    }
    let alone = median(&fleet, "bench.alone", ALONE).await;
    let whole = median(&fleet, "bench.graph", RUNS).await;
    #[expect(clippy::cast_precision_loss, reason = "a thousand")]
    let each = whole / STEPS as f64;
    let round = |value: f64| (value * 1000.0).round() / 1000.0;
    println!(
        "{}",
        json!({"bench": "graph", "figure": "ms_per_step", "value": round(each), "unit": "ms",
            "baseline": "an operation of one such step", "baseline_value": round(alone), "ratio": round(each / alone)})
    );
}
