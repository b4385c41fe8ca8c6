//! Built components in the real sandbox: what a step may do wrong, and what the host makes of it.

use std::{sync::Arc, time::Duration};

use crate::common::{self, Heard, TestNode};
use fettle_host::sandbox::{Limits, LoadError, Observation};
use fettle_model::{failure::FailureClass, grant::Grants};
use serde_json::json;

const ALL: &str = "{exec: {profiles: [hello]}, files: {write: [data]}, facts: {read: [memory]}, gpu: {read: true}}";

#[tokio::test(flavor = "multi_thread")]
async fn a_noop_answers_and_imports_no_capability() {
    let node = TestNode::new();
    assert_eq!(node.run("noop", "{}", &json!({})).await, Ok(json!({})));
    let compiled = node.sandbox.compile(common::component("noop").into()).await.unwrap();
    assert!(compiled.imports().capabilities.is_empty(), "{:?}", compiled.imports());
    assert!(compiled.imports().unknown.is_empty(), "{:?}", compiled.imports());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_imports_what_is_not_granted_is_refused_before_it_runs() {
    let node = TestNode::new();
    let compiled = node.sandbox.compile(common::component("testing").into()).await.unwrap();
    let grants: Grants =
        fettle_model::document::read("{exec: {profiles: [hello]}, facts: {read: [memory]}, gpu: {read: true}}")
            .unwrap();
    let Err(error) = node.sandbox.link(&compiled, &grants) else { panic!("it was linked") };
    assert!(matches!(error, LoadError::Refused { .. }));
    let text = error.to_string();
    assert!(text.contains("`fettle:files/files`") && text.contains("grants: { files: { write: [<root>] } }"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_beyond_the_ceiling_of_the_node_is_refused_before_anything_runs() {
    let node = TestNode::new();
    let grants: Grants = fettle_model::document::read("{files: {write: [other]}}").unwrap();
    let Err(failure) = fettle_host::capabilities::Configured::new(&node.node, &grants, &node.policy, None) else {
        panic!("it was granted")
    };
    assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Denied, "grant.beyond-ceiling"));
    assert!(failure.message.contains("files.write: other"), "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn machine_code_and_garbage_are_never_loaded() {
    let node = TestNode::new();
    let compiled = node.sandbox.engine().engine().precompile_component(&common::component("noop")).unwrap();
    for (bytes, expected) in [
        (compiled, "compiled machine code"),
        (b"(component)".to_vec(), "cannot be loaded"),
        (Vec::new(), "cannot be loaded"),
    ] {
        let Err(error) = node.sandbox.compile(bytes.into()).await else { panic!("it was loaded") };
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_misbehaves_is_stopped_with_a_sentence() {
    let node = TestNode::with_limits(Limits { cpu: Duration::from_millis(300), memory: 32 << 20, ..Limits::default() });
    for (input, code, words) in [
        (json!({"mode": "loop"}), "limit.cpu", "computed for longer than 300 ms"),
        (json!({"mode": "allocate"}), "limit.memory", "more memory than 32 MiB"),
        (json!({"mode": "panic"}), "step.panicked", "panicked"),
        (json!({"mode": "invalid_json"}), "step.invalid-json", "not JSON"),
        (json!({"mode": "huge_output", "count": 3_000_000}), "limit.output", "answered more than 1 MiB"),
    ] {
        let failure = node.run("testing", ALL, &input).await.unwrap_err();
        assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Permanent, code), "{input}: {failure}");
        assert!(failure.message.contains(words), "{input}: {failure}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_that_never_ends_is_stopped_by_its_timeout() {
    let node = TestNode::new();
    let grants: Grants = fettle_model::document::read(ALL).unwrap();
    let step = node.link("testing", &grants).await;
    let call = node.call(&grants, &Arc::default(), Duration::from_millis(200));
    let failure = step.probe(call, r#"{"mode": "ok", "probe": "loop"}"#).await.unwrap_err();
    assert_eq!(failure.code, "limit.wall-clock");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_logs_without_end_is_cut_and_the_cut_is_marked() {
    let node = TestNode::with_limits(Limits { host_calls: 20_000, ..Limits::default() });
    let grants: Grants = fettle_model::document::read(ALL).unwrap();
    let step = node.link("testing", &grants).await;
    let heard = Arc::new(Heard::default());
    let failure =
        step.run(node.call(&grants, &heard, Duration::from_secs(20)), r#"{"mode": "log"}"#).await.unwrap_err();
    assert_eq!(failure.code, "limit.host-calls");
    let lines = heard.lines.lock().unwrap();
    assert!(lines.len() < 2_000, "{} lines were kept", lines.len());
    assert!(lines.iter().any(|line| line.text.contains("is dropped")));
    assert!(lines.iter().any(|line| line.text.contains("were dropped")));
}

#[tokio::test(flavor = "multi_thread")]
async fn more_calls_than_slots_wait_instead_of_failing() {
    let node = Arc::new(TestNode::new());
    let calls = (0..64).map(|_| {
        let node = Arc::clone(&node);
        tokio::spawn(async move { node.run("noop", "{}", &json!({})).await })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap(), Ok(json!({})));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_answer_in_three_ways() {
    let node = TestNode::new();
    let probe = async |answer: &str| {
        node.probe("testing", ALL, &json!({"mode": "ok", "probe": answer, "value": 1})).await.unwrap()
    };
    assert_eq!(probe("satisfied").await, Observation::Satisfied(json!({"answer": 1})));
    assert!(matches!(probe("unsatisfied").await, Observation::Unsatisfied(_)));
    assert!(matches!(probe("unknown").await, Observation::Unknown(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_description_is_what_the_contract_says() {
    let node = TestNode::new();
    for (name, kind) in [("noop", "noop@v1"), ("file-render", "file.render@v1"), ("testing", "testing.misbehave@v1")] {
        let compiled = node.sandbox.compile(common::component(name).into()).await.unwrap();
        let descriptor = node.sandbox.describe(&compiled).await.unwrap();
        assert_eq!(descriptor.kind.as_str(), kind);
        assert!(
            descriptor
                .requests
                .keys()
                .copied()
                .collect::<std::collections::BTreeSet<_>>()
                .is_superset(&compiled.imports().capabilities),
            "{name}"
        );
    }
}
