//! Every attempt is recorded, and does the same when it is replayed.

use std::collections::{BTreeMap, BTreeSet};

use fettle_model::cassette::Outcome;
use fettle_tests::{
    Fleet, Supply, eventually,
    fleet::{PATIENCE, step},
};
use serde_json::json;

use crate::{CONSUME, POLICY, PROGRAMS, RENDER, SLEEP};

/// A step that finds no registry, twice, and is undone by nobody.
fn retried(address: &str) -> String {
    let digest = fettle_model::digest::Digest::of(b"gone");
    format!(
        r"
operation_type: test.retried
version: v1
backend_type: node_agent
input_schema: {{ type: object }}
steps:
  - id: pull
    uses: artifact.pull_oci@v1
    with: {{ reference: '127.0.0.1:1/models/gone@{digest}', destination: models/gone }}
    grants: {{ transfer: {{ hosts: ['127.0.0.1:1', '{address}'] }}, files: {{ write: [models] }} }}
    retry: {{ attempts: 3, backoff: {{ initial: 10ms, factor: 1, max: 10ms }} }}
"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn every_recorded_attempt_replays_the_same() {
    let supply = Supply::with(&["file-render", "noop", "command-exec-allowlisted", "artifact-pull-oci"]).await;
    let fleet = Fleet::start(PROGRAMS, &supply.trust).await;
    for definition in [RENDER, CONSUME, SLEEP, &retried(supply.address())] {
        fleet.register(&supply.publish(definition, POLICY).await).await;
    }
    let directory = tempfile::Builder::new().prefix("fettle-").tempdir_in("/tmp").unwrap();
    let made = json!({"directory": directory.path().join("made")});
    let text = |text: &str| json!({"text": text});
    assert_eq!(fleet.run("test.render", &text("one")).await["status"], "succeeded");
    assert_eq!(fleet.run("test.render", &text("two")).await["status"], "succeeded");
    assert_eq!(fleet.run("test.consume", &made).await["status"], "succeeded");
    let (_, again) = fleet.try_submit("test.consume", &made, "again").await.unwrap();
    assert_eq!(fleet.ended(again["operation_id"].as_str().unwrap()).await["status"], "failed");
    let retried = fleet.run("test.retried", &json!({})).await;
    assert_eq!(retried["status"], "failed", "{retried:#}");
    let sleeping = fleet.submit("test.sleep", &json!({"seconds": 600})).await;
    fleet.until(&sleeping, |operation| step(operation, "sleep")["status"] == "running").await;
    fleet.cancel(&sleeping).await;
    assert_eq!(fleet.ended(&sleeping).await["status"], "canceled");

    let recordings = fleet.replay_all().await;
    let mut kinds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for recording in &recordings {
        kinds.entry(&recording.entry.step_id).or_default().insert(&recording.entry.outcome);
        // Only what was interrupted is compared up to there; all else is the same to its last byte.
        assert!(
            recording.replayed.partial.is_none() || recording.cassette.outcome() == Some(&Outcome::Interrupted),
            "{:?}: {:?}",
            recording.entry,
            recording.replayed
        );
    }
    assert_eq!(kinds["render"], ["succeeded"].into(), "{kinds:?}");
    assert_eq!(kinds["make"], ["failed", "succeeded"].into(), "{kinds:?}");
    // Nobody saw how the attempt ended; the one that asked its probe came to the end.
    assert_eq!(kinds["sleep"], ["canceled", "unclear"].into(), "{kinds:?}");
    let pulls: Vec<u32> =
        recordings.iter().filter(|one| one.entry.step_id == "pull").map(|one| one.entry.attempt).collect();
    assert_eq!(pulls, [1, 2, 3], "each attempt has its cassette");
    assert!(recordings.iter().any(|recording| recording.replayed.calls > 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn cassettes_are_listed_and_exported_while_the_host_runs() {
    let supply = Supply::with(&["file-render", "noop"]).await;
    let fleet = Fleet::start(PROGRAMS, &supply.trust).await;
    fleet.register(&supply.publish(RENDER, POLICY).await).await;
    let operation = fleet.run("test.render", &json!({"text": "kept"})).await;
    let id = operation["operation_id"].as_str().unwrap();
    let data = fleet.host_directory();
    let host = async |arguments: &[&str]| {
        let log = supply.directory().join("cassettes.log");
        let _ = std::fs::remove_file(&log);
        let arguments = ["cassettes"].iter().chain(arguments).copied().map(str::to_owned);
        let arguments: Vec<String> =
            arguments.chain(["--data".to_owned(), data.to_string_lossy().into_owned()]).collect();
        let mut process = fettle_tests::Process::start(std::path::Path::new(PROGRAMS.host), arguments, &[], log);
        let status = eventually("the program to end", PATIENCE, async || process.ended()).await;
        (status.success(), process.printed())
    };
    let (listed, text) = host(&["list", "--operation", id, "--json"]).await;
    let entries: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(listed && entries.as_array().unwrap().len() == 2, "{text}");
    let (_, table) = host(&["list"]).await;
    assert!(table.lines().all(|line| line.len() <= 80) && table.contains("render"), "{table}");
    let file = supply.directory().join("render.cassette");
    let (exported, text) = host(&["export", "--step", "render", "--output", file.to_str().unwrap()]).await;
    assert!(exported, "{text}");
    let cassette = fettle_model::cassette::Cassette::read(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!((cassette.header.context.operation_id.as_str(), cassette.functions.len()), (id, 3));
    let (exported, text) = host(&["export", "--output", file.to_str().unwrap()]).await;
    assert!(!exported && text.contains("2 cassettes match"), "{text}");
}
