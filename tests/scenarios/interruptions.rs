//! Planes and registries that go away, operations that are canceled, hosts that are told to stop.

use std::{collections::BTreeMap, time::Duration};

use fettle_tests::{
    Fleet, Supply, eventually,
    fleet::{PATIENCE, step},
};
use serde_json::json;

use crate::{POLICY, PROGRAMS, RENDER, SLEEP};

/// Processes of this fleet's host that run now.
pub(crate) fn children(fleet: &Fleet) -> usize {
    programs(fleet).len()
}

/// The process ids of what the host of a fleet has started and that runs.
pub(crate) fn programs(fleet: &Fleet) -> Vec<u32> {
    let mark = format!("FETTLE_ATTEMPT={}", std::fs::read_to_string(fleet.host_directory().join("host-id")).unwrap());
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    entries
        .filter(|entry| {
            String::from_utf8_lossy(&std::fs::read(entry.path().join("environ")).unwrap_or_default()).contains(&mark)
        })
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn canceling_ends_the_running_command_and_skips_the_rest() {
    let supply = Supply::with(&["command-exec-allowlisted", "noop"]).await;
    let fleet = Fleet::start(PROGRAMS, &supply.trust).await;
    fleet.register(&supply.publish(SLEEP, POLICY).await).await;
    let id = fleet.submit("test.sleep", &json!({"seconds": 600})).await;
    eventually("the command to run", PATIENCE, || async { (children(&fleet) > 0).then_some(()) }).await;
    fleet.cancel(&id).await;
    let operation = fleet.ended(&id).await;
    assert_eq!(operation["status"], "canceled", "{operation:#}");
    assert_eq!(step(&operation, "sleep")["status"], "canceled", "{operation:#}");
    assert_eq!(step(&operation, "after")["status"], "canceled", "{operation:#}");
    assert_eq!(children(&fleet), 0, "the command still runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_goes_on_while_the_plane_is_away() {
    let supply = Supply::with(&["command-exec-allowlisted", "noop"]).await;
    let mut fleet = Fleet::start(PROGRAMS, &supply.trust).await;
    fleet.register(&supply.publish(SLEEP, POLICY).await).await;
    let id = fleet.submit("test.sleep", &json!({"seconds": 2})).await;
    eventually("the command to run", PATIENCE, || async { (children(&fleet) > 0).then_some(()) }).await;
    fleet.planes.kill();
    eventually("the command to end without the plane", PATIENCE, || async { (children(&fleet) == 0).then_some(()) })
        .await;
    fleet.planes.start().await;
    let operation = fleet.ended(&id).await;
    assert_eq!(operation["status"], "succeeded", "{operation:#}\n{}", fleet.logs());
    assert_eq!(step(&operation, "sleep")["attempt_number"], 1, "{operation:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_is_away_for_a_while_is_waited_for() {
    let mut supply = Supply::with(&["artifact-pull-oci"]).await;
    let model = supply.push_files("models/a", &BTreeMap::from([("weights", vec![7; 100_000])])).await;
    let fleet = Fleet::start(PROGRAMS, &supply.trust).await;
    let definition = format!(
        "operation_type: test.pull\nversion: v1\nbackend_type: node_agent\ninput_schema: {{ type: object }}\nsteps:\n  - id: pull\n    uses: artifact.pull_oci@v1\n    with: {{ reference: '${{{{ inputs.model }}}}', destination: models/a }}\n    grants: {{ transfer: {{ hosts: ['{}'] }}, files: {{ write: [models] }} }}\n    retry: {{ attempts: 20, backoff: {{ initial: 200ms, factor: 1, max: 200ms }} }}\n",
        supply.address()
    );
    fleet.register(&supply.publish(&definition, POLICY).await).await;
    // The first run brings the component to the node; the artifact itself is fetched anew.
    assert_eq!(fleet.run("test.pull", &json!({"model": model})).await["status"], "succeeded");
    std::fs::remove_dir_all(fleet.node_file("models/a")).unwrap();
    supply.registry.stop();
    let id = fleet.submit("test.pull", &json!({"model": model, "again": true})).await;
    fleet.until(&id, |operation| step(operation, "pull")["attempt_number"].as_u64() >= Some(2)).await;
    supply.registry.restart();
    let operation = fleet.ended(&id).await;
    assert_eq!(operation["status"], "succeeded", "{operation:#}");
    assert!(fleet.node_file("models/a/weights").is_file());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_is_away_when_a_task_arrives_is_waited_for() {
    let mut supply = Supply::with(&["noop"]).await;
    let fleet = Fleet::start(PROGRAMS, &supply.trust).await;
    fleet.register(&supply.publish(crate::NOOP, POLICY).await).await;
    supply.registry.stop();
    let id = fleet.submit("test.noop", &json!({})).await;
    let tried = async || fleet.logs().contains("a task cannot be prepared now").then_some(());
    eventually("the host to have tried", PATIENCE, tried).await;
    supply.registry.restart();
    let operation = fleet.ended(&id).await;
    assert_eq!(operation["status"], "succeeded", "{operation:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_told_to_stop_lets_the_step_finish_and_leaves_nothing() {
    let supply = Supply::with(&["command-exec-allowlisted", "noop"]).await;
    let mut fleet = Fleet::start(PROGRAMS, &supply.trust).await;
    fleet.register(&supply.publish(SLEEP, POLICY).await).await;
    let id = fleet.submit("test.sleep", &json!({"seconds": 2})).await;
    eventually("the command to run", PATIENCE, || async { (children(&fleet) > 0).then_some(()) }).await;
    fleet.host.as_ref().unwrap().terminate();
    let status = tokio::time::timeout(Duration::from_secs(45), async {
        loop {
            if let Some(status) = fleet.host.as_mut().unwrap().ended() {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let status = status.await.expect("the host ends by itself");
    assert!(status.success(), "{status}");
    assert_eq!(children(&fleet), 0);
    fleet.start_host();
    let operation = fleet.ended(&id).await;
    assert_eq!(operation["status"], "succeeded", "{operation:#}\n{}", fleet.logs());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_starts_before_its_plane_waits_for_it() {
    let supply = Supply::with(&["file-render", "noop"]).await;
    let mut fleet = Fleet::start(PROGRAMS, &supply.trust).await;
    fleet.register(&supply.publish(RENDER, POLICY).await).await;
    fleet.planes.kill();
    fleet.host.as_mut().unwrap().kill();
    fleet.start_host();
    fleet.planes.start().await;
    fleet.node_online().await;
    assert_eq!(fleet.run("test.render", &json!({"text": "x"})).await["status"], "succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_host_in_the_same_directory_refuses_to_start() {
    let supply = Supply::with(&["noop"]).await;
    let mut fleet = Fleet::start(PROGRAMS, &supply.trust).await;
    let first = fleet.host.take();
    fleet.start_host();
    let status = eventually("the second host to end", PATIENCE, async || fleet.host.as_mut().unwrap().ended()).await;
    assert!(!status.success());
    assert!(fleet.logs().contains("another host runs in"), "{}", fleet.logs());
    drop(first);
}
