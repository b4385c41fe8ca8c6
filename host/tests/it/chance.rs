//! A step that leaves something to chance: there is none in the sandbox, and where there were, a replay
//! names the step.

use std::{sync::Arc, time::Duration};

use crate::common::{self, Heard, TestNode};
use fettle_host::{
    mutation::{Protection, without},
    replay::{Difference, Replayed, Request, header, replay},
    sandbox::{Tape, tape},
};
use fettle_model::{
    cassette::{Cassette, Function},
    grant::Grants,
};

const ALL: &str = "{exec: {profiles: [hello]}, files: {write: [data]}, facts: {read: [memory]}, gpu: {read: true}}";
const INPUT: &str = r#"{"mode": "chance"}"#;

/// Records a step that asks for chance, and replays it.
async fn recorded_and_replayed(node: &TestNode) -> (Cassette, Replayed) {
    let grants: Grants = fettle_model::document::read(ALL).unwrap();
    let compiled = node.sandbox.compile(common::component("testing").into()).await.unwrap();
    let descriptor = node.sandbox.describe(&compiled).await.unwrap();
    let step = node.link("testing", &grants).await;
    let request = Request { function: Function::Run, input: INPUT, output: None };
    let tape = Tape::record(&header(&step, &descriptor, &request), tape::BOUND);
    let mut call = node.call(&grants, &Arc::<Heard>::default(), Duration::from_secs(20));
    call.tape = Some(tape.clone());
    step.run(call, INPUT).await.unwrap();
    let cassette = Cassette::read(&tape.finish().unwrap()).unwrap();
    let replayed = replay(&node.sandbox, &compiled, &cassette).await.unwrap();
    (cassette, replayed)
}

// One test: a protection that is out is out for the whole process.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_finds_no_chance_and_one_that_does_is_named_by_its_replay() {
    let node = TestNode::new();
    let (first, replayed) = recorded_and_replayed(&node).await;
    assert!(replayed.same, "{replayed:?}");
    let (second, _) = recorded_and_replayed(&node).await;
    assert_eq!(first.outcome(), second.outcome(), "two attempts met chance");

    let _without = without(Protection::StepsHaveNoChance);
    let (_, replayed) = recorded_and_replayed(&node).await;
    assert!(replayed.is_nondeterministic(), "{replayed:?}");
    assert_eq!(replayed.kind, "testing.misbehave@v1");
    assert!(matches!(replayed.difference, Some(Difference::Outcome { function: Function::Run, .. })), "{replayed:?}");
}
