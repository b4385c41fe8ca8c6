//! The engines that components run on, and the thread that lets them be interrupted.
//!
//! There are two, and the machine code of a component is the same for both: they differ only in where
//! instances get their memory. A component that fits the layout of the pool runs there; a larger one (an
//! interpreter with dozens of core instances, say) runs where memory is mapped for each instance anew.
//! Which it is follows from the component alone, when its code is loaded.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use wasmtime::{
    CodeBuilder, Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, component::Component,
};

use super::limits::{MAXIMUM_MEMORY, MAXIMUM_TABLE_ELEMENTS, STACK};
use crate::mutation::{Protection, off};

/// How often a running component is interrupted to look at its budget.
pub const TICK: Duration = Duration::from_millis(10);

/// What a component may consist of to run from the pool. What has more runs, too, on demand: this is a
/// layout and no limit. A Rust component has one memory, two tables and four core instances.
pub mod layout {
    /// Linear memories.
    pub const MEMORIES: u32 = 4;
    /// Tables.
    pub const TABLES: u32 = 8;
    /// Core instances.
    pub const INSTANCES: u32 = 16;
}

/// Where the instances of a component come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// Prepared slots: fast, needs address space.
    Pooled,
    /// Memory mapped per instance: works everywhere, and for components of every size.
    OnDemand,
}

/// Both engines with their ticker; the ticker ends with the last clone.
#[derive(Clone)]
pub struct TickingEngine {
    pooled: Option<Engine>,
    on_demand: Engine,
    _ticker: Arc<Ticker>,
}

impl TickingEngine {
    /// Engines for `slots` pooled attempts at once. There is no pool where the address space does not
    /// suffice for one.
    ///
    /// # Errors
    /// When the processor or the system cannot run compiled components at all.
    pub fn new(slots: u32) -> wasmtime::Result<Self> {
        let pooled = match Engine::new(&config(Some(slots))) {
            Ok(engine) => Some(engine),
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), "no pool of instances; components start slower");
                None
            }
        };
        let on_demand = Engine::new(&config(None))?;
        let ticker = Arc::new(Ticker::start(pooled.iter().chain([&on_demand]).cloned().collect()));
        Ok(Self { pooled, on_demand, _ticker: ticker })
    }

    /// The engine that components run on when they fit: what to compile with. Its machine code runs on
    /// the other one as well, so one `precompile_compatibility_hash` stands for both.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        self.pooled.as_ref().unwrap_or(&self.on_demand)
    }

    /// Whether there is a pool.
    #[must_use]
    pub const fn allocation(&self) -> Allocation {
        if self.pooled.is_some() { Allocation::Pooled } else { Allocation::OnDemand }
    }

    /// Machine code of a component, for [`Self::load`].
    ///
    /// # Errors
    /// When the bytes are no component that can be compiled.
    pub fn precompile(&self, content: &[u8]) -> wasmtime::Result<Vec<u8>> {
        // Not `precompile_component`: it also takes text.
        CodeBuilder::new(self.engine()).wasm_binary(content, None)?.compile_component_serialized()
    }

    /// Loads machine code into the pool when the component fits its layout, and beside it otherwise.
    ///
    /// # Errors
    /// When the code was made by another version or for another processor.
    ///
    /// # Safety
    /// `code` must be, unchanged, what [`Self::precompile`] answered in this or another process of this
    /// version: it is run as it is.
    #[expect(unsafe_code, reason = "machine code is run; the caller promises where it comes from")]
    pub unsafe fn load(&self, code: &[u8]) -> wasmtime::Result<(Component, Allocation)> {
        if let Some(pooled) = &self.pooled {
            // SAFETY: what the caller promises.
            match unsafe { Component::deserialize(pooled, code) } {
                Ok(component) => return Ok((component, Allocation::Pooled)),
                Err(reason) => tracing::debug!(reason = format!("{reason:#}"), "not from the pool"),
            }
        }
        // SAFETY: what the caller promises.
        let component = unsafe { Component::deserialize(&self.on_demand, code) }?;
        Ok((component, Allocation::OnDemand))
    }
}

fn config(pool_slots: Option<u32>) -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    config.wasm_component_model(true);
    // What a step computes must not depend on the processor.
    config.relaxed_simd_deterministic(true);
    config.wasm_relaxed_simd(true);
    let stack = if off(Protection::StacksAreBounded) { 64 * STACK } else { STACK };
    config.max_wasm_stack(stack);
    config.async_stack_size(2 * stack);
    if let Some(slots) = pool_slots {
        let mut pool = PoolingAllocationConfig::new();
        pool.total_component_instances(slots)
            .total_core_instances(slots.saturating_mul(layout::INSTANCES))
            .total_memories(slots.saturating_mul(layout::MEMORIES))
            .total_tables(slots.saturating_mul(layout::TABLES))
            .total_stacks(slots)
            .max_memories_per_component(layout::MEMORIES)
            .max_tables_per_component(layout::TABLES)
            .max_core_instances_per_component(layout::INSTANCES)
            .max_memory_size(MAXIMUM_MEMORY)
            .table_elements(MAXIMUM_TABLE_ELEMENTS)
            // The kernel says which pages were written: those are cleaned and stay, up to here; without its
            // help (Linux before 6.7) it is the first so many bytes, and the rest is given back each time.
            .pagemap_scan(Enabled::Auto)
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
    fn start(engines: Vec<Engine>) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopped);
        let run = move || {
            while !stop.load(Ordering::Relaxed) {
                thread::park_timeout(TICK);
                engines.iter().for_each(Engine::increment_epoch);
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
