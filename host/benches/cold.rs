//! What a component costs before it is warm: its first run on a node, and its first run after a restart,
//! against what wasmtime alone takes to compile it. Measured in turns, in one process; a restart is an
//! engine of its own on the same directories.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark that cannot measure should stop")]
#![allow(clippy::panic, reason = "a benchmark that cannot measure should stop")]

#[path = "../tests/it/common/mod.rs"]
mod common;

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use common::{Heard, TestNode};
use fettle_host::sandbox::{CodeCache, Compiled, Limits, Sandbox};
use fettle_model::{digest::Digest, grant::Grants};
use fettle_supply::ContentStore;
use wasmtime::component::Component;

const SLOTS: u32 = 8;
const CACHE: u64 = 2_000_000_000;
const SIZE_LIMIT: u64 = 64 << 20;

/// A component, what it may have, and what it is asked to do.
struct Subject {
    name: &'static str,
    content: Bytes,
    grants: Grants,
    input: String,
    rounds: usize,
}

/// A node on which nothing is in memory.
struct Cold {
    node: TestNode,
    store: ContentStore,
    cache: CodeCache,
}

impl Cold {
    fn start(directory: &Path) -> Self {
        let mut node = TestNode::new();
        let store = ContentStore::open(&directory.join("artifacts")).expect("a store");
        let cache = CodeCache::open(&directory.join("code"), CACHE, || Ok([1; 32])).expect("a cache");
        node.sandbox = Sandbox::new(SLOTS, Limits::default()).expect("a sandbox").with_code_cache(cache.clone());
        Self { node, store, cache }
    }

    /// From the store to an answer, as a host does it: read and hash, compile or load, ask for the
    /// description, link, run.
    async fn first(&self, subject: &Subject) -> (f64, Arc<Compiled>) {
        let digest = Digest::of(&subject.content);
        let begin = Instant::now();
        let content = self.store.read(digest, SIZE_LIMIT).await.expect("a store").expect("the component");
        let compiled = self.node.sandbox.compile(content).await.expect("a component");
        self.node.sandbox.describe(&compiled).await.expect("a description");
        self.run(subject, &compiled).await;
        let took = milliseconds(begin);
        self.cache.settled().await;
        (took, compiled)
    }

    async fn run(&self, subject: &Subject, compiled: &Compiled) {
        let step = self.node.sandbox.link(compiled, &subject.grants).expect("it links");
        let heard = Arc::new(Heard::default());
        let call = self.node.call(&subject.grants, &heard, Duration::from_secs(60));
        step.run(call, &subject.input).await.expect("it answers");
    }

    /// A run when everything is in memory.
    async fn warm(&self, subject: &Subject, compiled: &Compiled) -> f64 {
        self.run(subject, compiled).await;
        let begin = Instant::now();
        self.run(subject, compiled).await;
        milliseconds(begin)
    }
}

fn milliseconds(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e3
}

/// What wasmtime alone takes, on an engine that is configured the same.
fn bare_compile(node: &TestNode, content: &[u8]) -> f64 {
    let engine = node.sandbox.engine().engine();
    let begin = Instant::now();
    let component = Component::from_binary(engine, content).expect("a component");
    let took = milliseconds(begin);
    drop(component);
    took
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn print(figure: &str, subject: &Subject, value: f64, baseline: &str, baseline_value: f64) {
    let round = |value: f64| (value * 1000.0).round() / 1000.0;
    let line = serde_json::json!({
        "bench": "cold", "figure": figure, "component": subject.name, "bytes": subject.content.len(),
        "value": round(value), "unit": "ms",
        "baseline": baseline, "baseline_value": round(baseline_value), "ratio": round(value / baseline_value)
    });
    println!("{line}");
}

async fn measure(subject: &Subject) {
    let (mut bare, mut first, mut restarted, mut warm) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // The first round pays what a process pays once: threads, the compiler's own pages.
    for round in 0..=subject.rounds {
        let directory = tempfile::tempdir().unwrap();
        let cold = Cold::start(directory.path());
        cold.store.write(subject.content.clone()).await.expect("a store");
        let bare_time = bare_compile(&cold.node, &subject.content);
        let (first_time, _) = cold.first(subject).await;
        assert_eq!((cold.cache.counts().misses, cold.cache.counts().kept), (1, 1));
        let again = Cold::start(directory.path());
        let (restart_time, compiled) = again.first(subject).await;
        assert_eq!(again.cache.counts().hits, 1);
        let warm_time = again.warm(subject, &compiled).await;
        if round > 0 {
            bare.push(bare_time);
            first.push(first_time);
            restarted.push(restart_time);
            warm.push(warm_time);
        }
    }
    let (bare, first, restarted, warm) = (median(bare), median(first), median(restarted), median(warm));
    print("first_run", subject, first, "bare_compile", bare);
    print("after_restart", subject, restarted, "bare_compile", bare);
    print("after_restart", subject, restarted, "warm", warm);
}

fn python() -> Option<Subject> {
    let content = std::fs::read(common::target().join("python-steps/json_merge.wasm")).ok()?;
    let input = serde_json::json!({"path": "data/daemon.json", "patch": {"debug": true}}).to_string();
    let grants = fettle_model::document::read("{files: {write: [data]}}").expect("a grant");
    Some(Subject { name: "python", content: content.into(), grants, input, rounds: 3 })
}

#[tokio::main]
async fn main() {
    let noop = common::component("noop").into();
    let small = Subject { name: "noop", content: noop, grants: Grants::default(), input: "{}".to_owned(), rounds: 15 };
    measure(&small).await;
    match python() {
        Some(large) => measure(&large).await,
        None => eprintln!("the 18 MB component is not there: run `cargo xtask python-steps`"),
    }
}
