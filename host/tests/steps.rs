//! The steps of the catalog as built components, each doing its main thing in the real host.
//! `file.render` and `gpu.runtime.check` have files of their own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::TestNode;
use fettle_host::sandbox::Observation;
use fettle_model::failure::FailureClass;
use serde_json::json;

#[tokio::test]
async fn a_node_is_checked_through_the_facts_that_were_granted() {
    let node = TestNode::new();
    let input = json!({"checks": ["system", "memory"], "fail_on": "never"});
    let grant = "{facts: {read: [system, memory]}}";
    let answer = node.run("health-check", grant, &input).await.unwrap();
    let checks: Vec<_> = answer["findings"].as_array().unwrap().iter().map(|finding| &finding["check"]).collect();
    assert!(checks.contains(&&json!("system")) && checks.contains(&&json!("memory")), "{answer}");
    let failure = node.run("health-check", "{facts: {read: [system]}}", &input).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::Denied, "{failure}");
}

#[tokio::test]
async fn a_command_profile_runs_and_cannot_tell_whether_it_ran() {
    let node = TestNode::new();
    let input = json!({"profile": "hello", "arguments": {"who": "fleet"}});
    let grant = "{exec: {profiles: [hello]}}";
    let answer = node.run("command-exec-allowlisted", grant, &input).await.unwrap();
    assert_eq!((&answer["exit_code"], &answer["stdout"]), (&json!(0), &json!("hello fleet")));
    let probed = node.probe("command-exec-allowlisted", grant, &input).await.unwrap();
    assert!(matches!(probed, Observation::Unknown(_)), "{probed:?}");
}

#[tokio::test]
async fn a_pull_says_whether_the_registry_or_the_grant_is_missing() {
    let node = TestNode::new();
    let reference = format!("127.0.0.1:1/models/a@sha256:{}", "0".repeat(64));
    let input = json!({"reference": reference, "destination": "data/a"});
    let files = "files: {write: [data]}";
    // Nothing listens on port 1.
    let grant = format!("{{transfer: {{hosts: ['127.0.0.1:1']}}, {files}}}");
    let failure = node.run("artifact-pull-oci", &grant, &input).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::Transient, "{failure}");
    let grant = format!("{{transfer: {{hosts: ['127.0.0.1:2']}}, {files}}}");
    let failure = node.run("artifact-pull-oci", &grant, &input).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::Denied, "{failure}");
}
