//! Recorded attempts, replayed: the same calls and the same end, or the place where they differ.

use std::{sync::Arc, time::Duration};

use crate::common::{self, Heard, TestNode};
use fettle_host::{
    replay::{Difference, Replayed, context, replay},
    sandbox::{Tape, tape},
};
use fettle_model::{
    cassette::{Cassette, Context, Function, Header, Outcome, VERSION},
    digest::Digest,
    failure::FailureClass,
    grant::Grants,
};
use serde_json::{Value, json};

const ALL: &str = "{exec: {profiles: [hello, sleeper]}, files: {write: [data]}, facts: {read: [memory, processes]}, gpu: {read: true}}";

/// Runs a built component on this machine, and answers its cassette.
async fn record(node: &TestNode, name: &str, functions: &[Function], input: &Value, limit: Duration) -> Vec<u8> {
    let grants: Grants = fettle_model::document::read(ALL).unwrap();
    let step = node.link(name, &grants).await;
    let compiled = node.sandbox.compile(common::component(name).into()).await.unwrap();
    let descriptor = node.sandbox.describe(&compiled).await.unwrap();
    let header = Header {
        cassette: VERSION,
        component: step.digest,
        kind: descriptor.kind,
        effect: descriptor.effect,
        limits: step.limits_digest(),
        changed_limits: step.changed_limits(),
        context: Context { operation_id: "o".to_owned(), attempt: 1, ..Context::default() },
        input: input.to_string(),
    };
    let tape = Tape::record(&header, tape::BOUND);
    for function in functions {
        let mut call = node.call(&grants, &Arc::<Heard>::default(), limit);
        call.context = context(&header.context);
        call.tape = Some(tape.clone());
        match function {
            Function::Probe => drop(step.probe(call, &header.input).await),
            Function::Run => drop(step.run(call, &header.input).await),
            Function::Undo => drop(step.undo(call, &header.input, Some("{}")).await),
        }
    }
    tape.finish().unwrap()
}

async fn play(node: &TestNode, name: &str, content: &[u8]) -> Replayed {
    let compiled = node.sandbox.compile(common::component(name).into()).await.unwrap();
    replay(&node.sandbox, &compiled, &Cassette::read(content).unwrap()).await.unwrap()
}

const LONG: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_attempt_replays_the_same_without_touching_the_node() {
    let node = TestNode::new();
    let input = json!({"template": "x = {{ x }}", "values": {"x": 7}, "path": "data/app.conf"});
    let functions = [Function::Probe, Function::Run, Function::Probe];
    let content = record(&node, "file-render", &functions, &input, LONG).await;
    let written = node.directory.path().join("data/app.conf");
    assert_eq!(std::fs::read_to_string(&written).unwrap(), "x = 7");
    std::fs::remove_file(&written).unwrap();
    let replayed = play(&node, "file-render", &content).await;
    assert!(replayed.same && replayed.partial.is_none(), "{replayed:?}");
    assert_eq!(replayed.functions, 3);
    assert!(replayed.calls >= 4, "{replayed:?}");
    assert!(!written.exists(), "a replay touched the node");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_end_replays_the_same() {
    let node = TestNode::new();
    std::fs::create_dir_all(node.directory.path().join("data")).unwrap();
    std::fs::write(node.directory.path().join("data/bulk"), vec![7_u8; 300_000]).unwrap();
    for input in [
        json!({"mode": "ok", "value": {"a": [1, 2.5, "x"]}}),
        json!({"mode": "panic", "text": "no"}),
        json!({"mode": "invalid_json"}),
        json!({"mode": "huge_output", "count": 3_000_000}),
        json!({"mode": "fail", "class": "transient", "text": "later"}),
        json!({"mode": "exec", "name": "hello", "arguments": {"who": "world"}}),
        json!({"mode": "exec", "name": "not-granted"}),
        json!({"mode": "read_file", "path": "data/bulk"}),
        json!({"mode": "read_file", "path": "other/x"}),
        json!({"mode": "write_file", "path": "data/x", "text": "hi"}),
        json!({"mode": "facts", "name": "memory"}),
        json!({"mode": "facts", "name": "processes"}),
        json!({"mode": "gpu"}),
        json!({"mode": "log", "text": "line", "count": 50}),
        json!({"mode": "allocate"}),
    ] {
        let content = record(&node, "testing", &[Function::Probe, Function::Run], &input, LONG).await;
        for _ in 0..2 {
            let replayed = play(&node, "testing", &content).await;
            assert!(replayed.same && replayed.partial.is_none(), "{input}: {replayed:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_time_ended_is_compared_up_to_there() {
    let node = TestNode::new();
    let input = json!({"mode": "exec", "name": "sleeper"});
    let content = record(&node, "testing", &[Function::Run], &input, Duration::from_millis(300)).await;
    let recorded = Cassette::read(&content).unwrap();
    assert!(recorded.outcome().is_some_and(Outcome::depends_on_time), "{recorded:?}");
    let replayed = play(&node, "testing", &content).await;
    assert!(replayed.same && replayed.partial.is_some(), "{replayed:?}");
    assert_eq!(replayed.calls, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_that_is_full_is_compared_up_to_there() {
    let node = TestNode::new();
    let input = json!({"mode": "log", "text": "x".repeat(8000), "count": 1500});
    let content = record(&node, "testing", &[Function::Run], &input, LONG).await;
    assert!(content.len() < tape::BOUND + 10_000, "{}", content.len());
    let recorded = Cassette::read(&content).unwrap();
    assert!(recorded.truncated.is_some());
    assert!(matches!(recorded.outcome(), Some(Outcome::Answered(_))), "the attempt did not go on");
    let replayed = play(&node, "testing", &content).await;
    assert!(replayed.same && replayed.partial.is_some_and(|why| why.contains("after")), "it was not compared");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_difference_is_named() {
    let node = TestNode::new();
    let input = json!({"template": "x = {{ x }}", "values": {"x": 7}, "path": "data/app.conf"});
    let functions = [Function::Probe, Function::Run];
    let content = String::from_utf8(record(&node, "file-render", &functions, &input, LONG).await).unwrap();
    let tampered = async |from: &str, to: &str| {
        assert!(content.contains(from), "{content}");
        play(&node, "file-render", content.replacen(from, to, 1).as_bytes()).await
    };
    // Another input: another file is asked for.
    let replayed = tampered("data/app.conf\\\"", "data/other.conf\\\"").await;
    let Some(Difference::Call { function: Function::Probe, call: 1, expected, actual }) = &replayed.difference else {
        panic!("{replayed:?}")
    };
    assert!(expected.contains("data/app.conf") && actual.contains("data/other.conf"), "{replayed:?}");
    assert!(replayed.is_nondeterministic());
    // Another answer: the step goes another way.
    let replayed = tampered("\"answer\":{\"ok\":null}", "\"answer\":{\"err\":\"access-denied\"}").await;
    assert!(
        matches!(
            &replayed.difference,
            Some(Difference::MissingCalls { .. } | Difference::Outcome { function: Function::Probe, .. })
        ),
        "{replayed:?}"
    );
    // An answer that the contract does not know is no fault of the step.
    let replayed = tampered("\"answer\":{\"ok\":null}", "\"answer\":{\"err\":\"no-such-case\"}").await;
    assert!(matches!(&replayed.difference, Some(Difference::Answer { .. })), "{replayed:?}");
    assert!(!replayed.is_nondeterministic());
    // Another outcome.
    let outcome = content.lines().rfind(|line| line.contains("outcome")).unwrap().to_owned();
    let replayed = tampered(&outcome, r#"{"outcome":{"answered":"{}"}}"#).await;
    assert!(matches!(&replayed.difference, Some(Difference::Outcome { function: Function::Run, .. })), "{replayed:?}");
    // A call less.
    let call = content.lines().rfind(|line| line.contains("\"call\"")).unwrap().to_owned();
    let calls = content.matches("{\"call\"").count();
    let shorter = content
        .replacen(&format!("{call}\n"), "", 1)
        .replace(&format!("\"calls\":{calls}"), &format!("\"calls\":{}", calls - 1));
    let replayed = play(&node, "file-render", shorter.as_bytes()).await;
    assert!(matches!(&replayed.difference, Some(Difference::ExtraCall { .. })), "{replayed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_component_is_another_component_and_not_a_nondeterministic_one() {
    let node = TestNode::new();
    let content = record(&node, "testing", &[Function::Run], &json!({"mode": "ok"}), LONG).await;
    let replayed = play(&node, "file-render", &content).await;
    assert!(!replayed.same && !replayed.is_nondeterministic(), "{replayed:?}");
    assert_ne!(replayed.component, replayed.recorded_component);
}

#[test]
fn what_time_ends_is_told_apart_from_what_the_step_does() {
    let failed = |code: &str| Outcome::Failed(fettle_model::failure::Failure::new(FailureClass::Permanent, code, "x"));
    assert!(failed("limit.wall-clock").depends_on_time() && failed("limit.cpu").depends_on_time());
    assert!(!failed("limit.memory").depends_on_time() && !failed("step.panicked").depends_on_time());
    assert_ne!(Digest::of(b"a"), Digest::of(b"b"));
}
