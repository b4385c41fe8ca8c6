//! `artifact.pull_oci` of a layer of 1 GB from a loopback docker-registry, in the real sandbox, against
//! `skopeo copy` of the same artifact to a directory. In turns, in one run.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a benchmark that cannot measure should stop")]

use std::{
    collections::BTreeMap,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use fettle_model::reference::Reference;
use fettle_tests::{Fleet, Programs, Supply, fleet::step};
use serde_json::json;

const GIGABYTE: usize = 1_000_000_000;
const ROUNDS: usize = 3;
const PROGRAMS: Programs =
    Programs { host: env!("CARGO_BIN_EXE_host-under-test"), plane: env!("CARGO_BIN_EXE_plane-under-test") };

const POLICY: &str = "revision: 1\nroots: { models: models }\nceiling: { files: { write: [models] }, transfer: { hosts: ['*'] } }\negress: { private: { '127.0.0.1': [127.0.0.1/32], localhost: [127.0.0.0/8, '::1/128'] } }\n";

fn definition(registry: &str) -> String {
    format!(
        "operation_type: bench.pull\nversion: v1\nbackend_type: node_agent\ninput_schema: {{ type: object }}\nsteps:\n  - id: pull\n    uses: artifact.pull_oci@v1\n    with: {{ reference: '${{{{ inputs.model }}}}', destination: models/bench }}\n    grants: {{ transfer: {{ hosts: ['{registry}'] }}, files: {{ write: [models] }} }}\n"
    )
}

/// A gigabyte that does not compress.
fn write_layer(path: &Path) {
    let mut file = std::io::BufWriter::with_capacity(1 << 20, std::fs::File::create(path).unwrap());
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..GIGABYTE / 8 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        file.write_all(&state.to_le_bytes()).unwrap();
    }
    file.flush().unwrap();
}

fn skopeo(model: &Reference, directory: &Path) -> f64 {
    let destination = directory.join("skopeo");
    let begin = Instant::now();
    let status = Command::new("skopeo")
        .args([
            "copy",
            "--quiet",
            "--src-tls-verify=false",
            &format!("docker://{model}"),
            &format!("dir:{}", destination.display()),
        ])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    let seconds = begin.elapsed().as_secs_f64();
    assert!(status.success(), "skopeo copy failed");
    std::fs::remove_dir_all(destination).unwrap();
    seconds
}

/// Seconds of the step, as the host measured it, and the host's largest resident memory in MB.
async fn fettle(fleet: &Fleet, model: &Reference, round: usize) -> (f64, f64) {
    let operation = fleet.run("bench.pull", &json!({"model": model, "round": round})).await;
    assert_eq!(operation["status"], "succeeded", "{operation:#}\n{}", fleet.logs());
    std::fs::remove_dir_all(fleet.node_file("models/bench")).unwrap();
    let seconds = step(&operation, "pull")["duration_ms"].as_f64().unwrap() / 1000.0;
    let status = std::fs::read_to_string(format!("/proc/{}/status", fleet.host.as_ref().unwrap().id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    (seconds, peak.trim().trim_end_matches(" kB").trim().parse::<f64>().unwrap() / 1000.0)
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[tokio::main]
async fn main() {
    let supply = Supply::with(&["artifact-pull-oci"]).await;
    let layer = supply.directory().join("weights.bin");
    write_layer(&layer);
    let repository = supply.registry.repository("models/bench");
    let model = supply.client.push_files(&repository, &[("weights.bin".to_owned(), layer.clone())]).await.unwrap();
    std::fs::remove_file(layer).unwrap();
    let fleet = Fleet::start(PROGRAMS, &supply.trust).await;
    fleet.register(&supply.publish(&definition(supply.address()), POLICY).await).await;
    let mut times: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut peak = 0.0_f64;
    for number in 0..ROUNDS {
        times.entry("skopeo").or_default().push(skopeo(&model, supply.directory()));
        let (seconds, memory) = fettle(&fleet, &model, number).await;
        times.entry("fettle").or_default().push(seconds);
        peak = peak.max(memory);
    }
    let (value, baseline) = (median(times["fettle"].clone()), median(times["skopeo"].clone()));
    let line = json!({
        "bench": "pull", "figure": "pull_oci_1gb", "value": round(value), "unit": "s",
        "baseline": "skopeo_copy", "baseline_value": round(baseline), "ratio": round(value / baseline)
    });
    println!("{line}");
    let line = json!({
        "bench": "pull", "figure": "host_peak_memory", "value": round(peak), "unit": "MB",
        "baseline": "limit", "baseline_value": 100.0, "ratio": round(peak / 100.0)
    });
    println!("{line}");
}
