//! What the host adds to a call of a component: a warm no-op step against the bare wasmtime loop on the
//! same component, and against starting a program. Measured in turns, in one process.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a benchmark that cannot measure should stop"
)]

#[path = "../tests/it/common/mod.rs"]
mod common;
#[path = "step/recorded.rs"]
mod recorded;

use std::{
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use common::{Heard, TestNode};
use fettle_host::sandbox::bindings::Component as Typed;
use fettle_model::grant::Grants;
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store,
    component::{Component, Linker, ResourceTable},
};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

const ROUNDS: usize = 40;
const CALLS: u32 = 250;
const SPAWNS: u32 = 10;

struct Bare {
    wasi: WasiCtx,
    table: ResourceTable,
}

/// The least that can answer a report: nothing.
impl fettle_host::sandbox::bindings::fettle::report::report::Host for Bare {
    async fn log(
        &mut self,
        _level: fettle_host::sandbox::bindings::fettle::report::report::Level,
        _message: String,
    ) -> wasmtime::Result<()> {
        Ok(())
    }

    async fn progress(&mut self, _percent: u8, _message: Option<String>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl WasiView for Bare {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

/// The shortest loop that wasmtime allows: pooled instances, everything prepared.
struct BareLoop {
    engine: Engine,
    instance: wasmtime::component::InstancePre<Bare>,
}

impl BareLoop {
    fn new(bytes: &[u8], pool: PoolingAllocationConfig) -> Self {
        let mut config = Config::new();
        config.epoch_interruption(true);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        let engine = Engine::new(&config).expect("a pooling engine");
        let component = Component::from_binary(&engine, bytes).expect("a component");
        let mut linker = Linker::<Bare>::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker).expect("WASI links");
        fettle_host::sandbox::bindings::fettle::report::report::add_to_linker::<
            Bare,
            wasmtime::component::HasSelf<Bare>,
        >(&mut linker, |state| state)
        .expect("report links");
        let instance = linker.instantiate_pre(&component).expect("everything is linked");
        Self { engine, instance }
    }

    async fn call(&self) {
        let state = Bare { wasi: WasiCtx::builder().build(), table: ResourceTable::new() };
        let mut store = Store::new(&self.engine, state);
        store.set_epoch_deadline(1_000_000);
        let instance = self.instance.instantiate_async(&mut store).await.expect("it instantiates");
        let typed = Typed::new(&mut store, &instance).expect("it is a step");
        let answer = typed.fettle_step_step().call_run(&mut store, &common::context(), "{}").await.expect("it answers");
        assert_eq!(answer.expect("it succeeds"), "{}");
    }
}

async fn measure(calls: u32, call: impl AsyncFn()) -> f64 {
    let begin = Instant::now();
    for _ in 0..calls {
        call().await;
    }
    begin.elapsed().as_secs_f64() * 1e6 / f64::from(calls)
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// Microseconds of processor time since then, of all threads.
fn since(before: Duration) -> f64 {
    (recorded::processor_time() - before).as_secs_f64() * 1e6
}

fn print(figure: &str, value: f64, baseline: &str, baseline_value: f64) {
    let ratio = value / baseline_value;
    let line = serde_json::json!({
        "bench": "step", "figure": figure, "value": round(value), "unit": "us",
        "baseline": baseline, "baseline_value": round(baseline_value), "ratio": round(ratio)
    });
    println!("{line}");
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let node = TestNode::new();
    let bytes = common::component("noop");
    let bare = BareLoop::new(&bytes, PoolingAllocationConfig::new());
    // The same loop with the one setting of the pool that a host has and wasmtime's defaults have not.
    let mut scanning = PoolingAllocationConfig::new();
    scanning.pagemap_scan(Enabled::Auto).linear_memory_keep_resident(256 << 10).table_keep_resident(16 << 10);
    let scanning = BareLoop::new(&bytes, scanning);
    let compiled = node.sandbox.compile(bytes.into()).await.expect("a component");
    let grants = Grants::default();
    let heard = Arc::new(Heard::default());
    let warm = async || {
        let step = node.sandbox.link(&compiled, &grants).expect("it links");
        let answer = step.run(node.call(&grants, &heard, Duration::from_secs(10)), "{}").await.expect("it answers");
        assert_eq!(answer, serde_json::json!({}));
    };
    let spawn = async || {
        assert!(Command::new("/bin/true").status().expect("true starts").success());
    };
    let host = recorded::Host::start(&node).await;
    let (mut warm_times, mut bare_times, mut spawn_times) = (Vec::new(), Vec::new(), Vec::new());
    let mut scanning_times = Vec::new();
    let (mut recorded_times, mut recorded_processor, mut bare_processor) = (Vec::new(), Vec::new(), Vec::new());
    measure(CALLS, warm).await;
    measure(CALLS, async || bare.call().await).await;
    for _ in 0..ROUNDS {
        warm_times.push(measure(CALLS, warm).await);
        let before = recorded::processor_time();
        bare_times.push(measure(CALLS, async || bare.call().await).await);
        bare_processor.push(since(before) / f64::from(CALLS));
        scanning_times.push(measure(CALLS, async || scanning.call().await).await);
        let before = recorded::processor_time();
        recorded_times.push(host.round().await);
        recorded_processor.push(since(before) / f64::from(recorded::ATTEMPTS));
        spawn_times.push(measure(SPAWNS, spawn).await);
    }
    let (warm, bare, spawn) = (median(warm_times), median(bare_times), median(spawn_times));
    print("warm_noop", warm, "bare_wasmtime_pooled", bare);
    print("warm_noop", warm, "bare_wasmtime_same_pool", median(scanning_times));
    print("warm_noop", warm, "fork_exec_true", spawn);
    print("warm_noop_recorded", median(recorded_times), "bare_wasmtime_pooled", bare);
    print(
        "warm_noop_recorded_processor",
        median(recorded_processor),
        "bare_wasmtime_processor",
        median(bare_processor),
    );
    let kept = fettle_host::executor::journal::Archive::open(&host.journal()).await.expect("a journal");
    let kept = kept.list(&fettle_host::executor::journal::Filter::default()).await.expect("cassettes");
    assert_eq!(kept.len(), 2_000, "attempts were not recorded");
}
