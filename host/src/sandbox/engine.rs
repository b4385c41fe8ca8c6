//! The engine all components run on, and the thread that lets it interrupt them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use super::limits::{Limits, MAXIMUM_MEMORY};

/// How often a running component is interrupted to look at its budget.
pub const TICK: Duration = Duration::from_millis(10);

/// Whether instances come from a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// Prepared slots: fast, needs address space.
    Pooled,
    /// Memory mapped per instance: works everywhere.
    OnDemand,
}

/// An engine with its ticker; the ticker ends with the last clone.
#[derive(Clone)]
pub struct TickingEngine {
    engine: Engine,
    _ticker: Arc<Ticker>,
    /// How its instances are allocated.
    pub allocation: Allocation,
}

impl TickingEngine {
    /// An engine for `slots` attempts at once. Falls back to on-demand memory where the address space
    /// does not suffice for a pool.
    ///
    /// # Errors
    /// When the processor or the system cannot run compiled components at all.
    pub fn new(slots: u32) -> wasmtime::Result<Self> {
        let (engine, allocation) = match Engine::new(&config(Some(slots))) {
            Ok(engine) => (engine, Allocation::Pooled),
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), "no pool of instances; components start slower");
                (Engine::new(&config(None))?, Allocation::OnDemand)
            }
        };
        let ticker = Arc::new(Ticker::start(engine.clone()));
        Ok(Self { engine, _ticker: ticker, allocation })
    }

    /// The engine.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }
}

fn config(pool_slots: Option<u32>) -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    config.wasm_component_model(true);
    // What a step computes must not depend on the processor.
    config.relaxed_simd_deterministic(true);
    config.wasm_relaxed_simd(true);
    config.max_wasm_stack(1 << 20);
    config.async_stack_size(2 << 20);
    if let Some(slots) = pool_slots {
        let limits = Limits::default();
        let mut pool = PoolingAllocationConfig::new();
        pool.total_component_instances(slots)
            .total_core_instances(slots * limits.instances)
            .total_memories(slots * limits.memories)
            .total_tables(slots * limits.tables)
            .total_stacks(slots)
            .max_memories_per_component(limits.memories)
            .max_tables_per_component(limits.tables)
            .max_core_instances_per_component(limits.instances)
            .max_memory_size(MAXIMUM_MEMORY)
            .table_elements(limits.table_elements)
            .linear_memory_keep_resident(256 << 10)
            .table_keep_resident(16 << 10);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    }
    config
}

struct Ticker {
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    fn start(engine: Engine) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopped);
        let run = move || {
            while !stop.load(Ordering::Relaxed) {
                thread::park_timeout(TICK);
                engine.increment_epoch();
            }
        };
        let thread = thread::Builder::new().name("fettle-epoch".to_owned()).spawn(run).ok();
        Self { stopped, thread }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
