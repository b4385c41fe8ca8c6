//! Steps in Python: 18 MB of interpreter in the same sandbox as everything else.

use std::{collections::BTreeSet, net::TcpListener, sync::Arc, time::Duration};

use crate::common::{self, TestNode};
use bytes::Bytes;
use fettle_host::{
    mutation::{Protection, without},
    sandbox::{CodeCache, Compiled, Limits, Observation, Sandbox},
};
use fettle_model::{
    failure::{Failure, FailureClass},
    grant::{Capability, Grants},
};
use serde_json::{Value, json};

/// A component that `cargo xtask python-steps` has built.
fn component(name: &str) -> Option<Bytes> {
    let path = common::target().join("python-steps").join(format!("{name}.wasm"));
    let read = std::fs::read(&path).ok().map(Bytes::from);
    if read.is_none() {
        common::skip(&format!("{} is missing: run `cargo xtask python-steps`", path.display()));
    }
    read
}

fn grants(text: &str) -> Grants {
    fettle_model::document::read(text).unwrap()
}

async fn probe(node: &TestNode, step: &Compiled, text: &str, input: &Value) -> Result<Observation, Failure> {
    let grants = grants(text);
    let step = node.sandbox.link(step, &grants).unwrap();
    step.probe(node.call(&grants, &Arc::default(), Duration::from_secs(60)), &input.to_string()).await
}

async fn run(node: &TestNode, step: &Compiled, text: &str, input: &Value) -> Result<Value, Failure> {
    let grants = grants(text);
    let step = node.sandbox.link(step, &grants).unwrap();
    step.run(node.call(&grants, &Arc::default(), Duration::from_secs(60)), &input.to_string()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_in_python_is_compiled_once_and_converges() {
    let Some(content) = component("json_merge") else { return };
    let mut node = TestNode::new();
    let cache = CodeCache::open(&node.directory.path().join("code"), 1 << 30, || Ok([1; 32])).unwrap();
    node.sandbox = Sandbox::new(2, Limits::default()).unwrap().with_code_cache(cache.clone());
    let step = node.sandbox.compile(content.clone()).await.unwrap();
    cache.settled().await;
    assert_eq!(step.imports().capabilities, BTreeSet::from([Capability::Files]));
    assert!(step.imports().unknown.is_empty(), "{:?}", step.imports().unknown);
    let descriptor = node.sandbox.describe(&step).await.unwrap();
    assert_eq!(descriptor.kind.as_str(), "json.merge@v1");

    let file = node.directory.path().join("data/daemon.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, r#"{"debug": true, "old": 1}"#).unwrap();
    let write = "{files: {write: [data]}}";
    let input = json!({"path": "data/daemon.json", "patch": {"old": null, "default-runtime": "nvidia"}});
    let Observation::Unsatisfied(difference) = probe(&node, &step, write, &input).await.unwrap() else {
        panic!("it is satisfied")
    };
    assert!(difference.contains("+  \"default-runtime\": \"nvidia\""), "{difference}");
    assert_eq!(
        probe(&node, &step, write, &input).await.unwrap(),
        Observation::Unsatisfied(difference),
        "the same again"
    );
    let denied = run(&node, &step, "{files: {read: [data]}}", &input).await.unwrap_err();
    assert_eq!((denied.class, denied.code.as_str()), (FailureClass::Denied, "files.access-denied"));
    let output = run(&node, &step, write, &input).await.unwrap();
    let content_now: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(content_now, json!({"debug": true, "default-runtime": "nvidia"}));
    assert_eq!(probe(&node, &step, write, &input).await.unwrap(), Observation::Satisfied(output.clone()));

    // After a restart, the same code in a smaller room.
    let limits = Limits { memory: 16 << 20, ..Limits::default() };
    node.sandbox = Sandbox::new(2, limits).unwrap().with_code_cache(cache.clone());
    let step = node.sandbox.compile(content).await.unwrap();
    assert_eq!((cache.counts().hits, node.sandbox.compiled_at_once()), (1, 0));
    assert_eq!(run(&node, &step, write, &input).await.unwrap(), output);
    let large = json!({"path": "data/daemon.json", "patch": {"large": "x".repeat(4 << 20)}});
    let stopped = run(&node, &step, write, &large).await.unwrap_err();
    assert_eq!(stopped.code, "limit.memory", "{stopped}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_the_interpreter_could_reach_reaches_nothing() {
    let Some(content) = component("nosy") else { return };
    let node = TestNode::new();
    let step = node.sandbox.compile(content).await.unwrap();
    assert!(step.imports().capabilities.is_empty() && step.imports().unknown.is_empty(), "{:?}", step.imports());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let input = json!({"port": listener.local_addr().unwrap().port()});

    let seen = run(&node, &step, "{}", &input).await.unwrap();
    eprintln!("{seen:#}");
    for still in ["time", "monotonic"] {
        assert_eq!(seen[still]["answer"], json!(0.0), "{seen}");
    }
    for nothing in ["list", "read", "write", "resolve", "connect", "listen", "send", "start"] {
        assert!(seen[nothing]["error"].is_string(), "{nothing}: {seen}");
    }
    assert_eq!(seen["input"]["answer"], json!(""), "{seen}");
    assert_eq!(run(&node, &step, "{}", &input).await.unwrap(), seen, "the same input gives the same output");
    assert!(listener.accept().is_err(), "it connected");

    let open = without(Protection::ComponentsHaveNoNetwork);
    let seen = run(&node, &step, "{}", &input).await.unwrap();
    assert_eq!(seen["connect"]["answer"], json!("connected"), "the protection keeps nothing out: {seen}");
    assert!(listener.accept().is_ok());
    drop(open);

    let stopped = run(&node, &step, "{}", &json!({"allocate": true})).await.unwrap_err();
    assert_eq!(stopped.code, "limit.memory", "{stopped}");
}
