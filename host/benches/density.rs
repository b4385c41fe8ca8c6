//! Memory of an attempt that waits for the host: a thousand of ours, and a thousand of the barest instances
//! that wasmtime can hold, of the same component in the same wait. Each in a process of its own, because
//! what one leaves in the allocator would make the other look small.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a benchmark that cannot measure should stop"
)]

#[path = "../tests/it/common/mod.rs"]
mod common;

use std::{process::Command, sync::Arc, time::Duration};

use common::{Heard, TestNode};
use fettle_host::sandbox::{Limits, Sandbox, bindings::Component as Typed};
use fettle_model::grant::Grants;
use wasmtime::{
    Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store,
    component::{Component, Linker, ResourceTable, types::ComponentItem},
};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

const ATTEMPTS: u32 = 1_000;
const INPUT: &str = r#"{"attack": "sleep", "count": 100000}"#;
const GRANTS: &str =
    "{exec: {profiles: [hello]}, files: {write: [data]}, transfer: {hosts: ['*']}, facts: {read: [memory]}}";
/// Which of the two a child process is.
const ROLE: &str = "FETTLE_DENSITY";

struct Bare {
    wasi: WasiCtx,
    table: ResourceTable,
}

impl WasiView for Bare {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

fn resident() -> u64 {
    procfs::process::Process::myself().unwrap().status().unwrap().vmrss.unwrap() * 1024
}

fn processor_ticks() -> u64 {
    let stat = procfs::process::Process::myself().unwrap().stat().unwrap();
    stat.utime + stat.stime
}

/// Waits until nothing computes any more: all attempts wait.
async fn quiet() {
    let mut before = u64::MAX;
    while processor_ticks().abs_diff(before) > 2 {
        before = processor_ticks();
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Bytes that each of these futures takes, once all of them wait.
async fn bytes_each<F: Future<Output = ()> + Send + 'static>(start: impl Fn() -> F) -> u64 {
    // One is run to its wait first, for what is shared by all.
    let first = tokio::spawn(start());
    quiet().await;
    let before = resident();
    let all: Vec<_> = (0..ATTEMPTS - 1).map(|_| tokio::spawn(start())).collect();
    quiet().await;
    let after = resident();
    assert!(all.iter().chain([&first]).all(|one| !one.is_finished()), "an attempt did not wait");
    after.saturating_sub(before) / u64::from(ATTEMPTS - 1)
}

/// Its capabilities are there and refuse: it only sleeps.
fn refuse_capabilities(linker: &mut Linker<Bare>, component: &Component) {
    let engine = component.engine();
    for (name, import) in component.component_type().imports(engine) {
        let ComponentItem::ComponentInstance(interface) = import.ty else { continue };
        if !name.starts_with("fettle:") {
            continue;
        }
        let mut linked = linker.instance(name).expect("a name");
        for (function, export) in interface.exports(engine) {
            if matches!(export.ty, ComponentItem::ComponentFunc(_)) {
                let refuse = |_: wasmtime::StoreContextMut<'_, Bare>, _, _: &[_], _: &mut [_]| {
                    Err(wasmtime::Error::msg("nothing is granted"))
                };
                linked.func_new(function, refuse).expect("a function");
            }
        }
    }
}

async fn bare() -> u64 {
    let mut config = Config::new();
    config.epoch_interruption(true);
    let mut pool = PoolingAllocationConfig::new();
    // A component has more than one core instance and table.
    pool.total_core_instances(ATTEMPTS * 8).total_tables(ATTEMPTS * 4);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    let engine = Engine::new(&config).expect("a pooling engine");
    let component = Component::from_binary(&engine, &common::component("hostile")).expect("a component");
    let mut linker = Linker::<Bare>::new(&engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker).expect("WASI links");
    refuse_capabilities(&mut linker, &component);
    let instance = linker.instantiate_pre(&component).expect("everything is linked");
    bytes_each(move || {
        let (engine, instance) = (engine.clone(), instance.clone());
        async move {
            let state = Bare { wasi: WasiCtx::builder().build(), table: ResourceTable::new() };
            let mut store = Store::new(&engine, state);
            store.set_epoch_deadline(1_000_000);
            let instance = instance.instantiate_async(&mut store).await.expect("it instantiates");
            let typed = Typed::new(&mut store, &instance).expect("it is a step");
            let _ = typed.fettle_step_step().call_run(&mut store, &common::context(), INPUT).await;
        }
    })
    .await
}

async fn ours() -> u64 {
    let mut node = TestNode::new();
    node.sandbox = Sandbox::new(ATTEMPTS, Limits::default()).expect("a sandbox");
    let grants: Grants = fettle_model::document::read(GRANTS).unwrap();
    let step = node.link("hostile", &grants).await;
    let node = Arc::new(node);
    bytes_each(move || {
        let (node, step, grants) = (Arc::clone(&node), step.clone(), grants.clone());
        async move {
            let heard = Arc::new(Heard::default());
            let _ = step.run(node.call(&grants, &heard, Duration::from_secs(100_000)), INPUT).await;
        }
    })
    .await
}

fn child(role: &str) -> f64 {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program).env(ROLE, role).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
    match std::env::var(ROLE).as_deref() {
        Ok("bare") => println!("{}", runtime.block_on(bare())),
        Ok("ours") => println!("{}", runtime.block_on(ours())),
        _ => {
            let (bare, ours) = (child("bare") / 1024.0, child("ours") / 1024.0);
            let round = |value: f64| (value * 1000.0).round() / 1000.0;
            let line = serde_json::json!({
                "bench": "density", "figure": "waiting_attempt", "value": round(ours), "unit": "KiB",
                "baseline": "bare_wasmtime_pooled", "baseline_value": round(bare), "ratio": round(ours / bare),
                "attempts": ATTEMPTS
            });
            println!("{line}");
            // The attempts wait for a day; the process does not.
            std::process::exit(0);
        }
    }
    std::process::exit(0);
}
