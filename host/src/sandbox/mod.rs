//! Runs step components: compiled once, one store per call, every limit enforced.

mod attempt;
pub mod bindings;
mod cache;
mod compile;
mod ending;
pub mod engine;
pub(crate) mod gate;
pub mod imports;
mod inert;
pub mod limits;
mod meter;
mod processor;
mod size;
mod spent;
mod state;
mod streams;
pub mod tape;

use std::{collections::BTreeSet, sync::Arc};

use fettle_model::{
    descriptor::Descriptor,
    digest::Digest,
    grant::{Capability, Grants},
    limits::AttemptLimits,
};
use wasmtime::component::{Component, InstancePre, Linker};

pub use self::{
    attempt::{Call, Observation},
    cache::{CacheCounts, CacheError, CodeCache, FreshKey},
    compile::{COMPILATIONS, COMPONENT_LIMIT, Compiled},
    engine::{Allocation, TickingEngine},
    imports::Imports,
    inert::INTERFACES as INERT_INTERFACES,
    limits::{Limit, Limits, WALL_CLOCK},
    spent::Spent,
    state::AttemptState,
    tape::Tape,
};
use self::{compile::Compiler, processor::Processor};
use crate::{
    capabilities,
    mutation::{Protection, off},
    queue::{Pressure, Queue},
};

/// Most bytes of a descriptor (wit/step.wit).
const DESCRIPTOR_LIMIT: usize = 256 << 10;

/// Of the slots of the pool, one in so many is for components that run beside it: they are the large ones.
pub const ON_DEMAND_PART: usize = 4;

/// Why a component cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The bytes are no component, or one that this engine cannot run.
    #[error("component {digest} cannot be loaded: {reason}")]
    NotAComponent {
        /// Which.
        digest: Digest,
        /// Why.
        reason: String,
    },
    /// It wants more than it may have.
    #[error("component {digest} is refused: {reason}")]
    Refused {
        /// Which.
        digest: Digest,
        /// What it wants, and what would allow it.
        reason: String,
    },
    /// It has too many bytes.
    #[error("a component of {size} bytes is refused: {limit} are allowed; build it smaller, or split the step")]
    TooLarge {
        /// Bytes it has.
        size: usize,
        /// Bytes it may have.
        limit: usize,
    },
    /// Compiling it takes too long on this machine now.
    #[error("component {digest} is not compiled after {seconds} s; the compiler goes on, so try again later")]
    TooSlow {
        /// Which.
        digest: Digest,
        /// How long was waited.
        seconds: u64,
    },
}

/// Compiles components and runs them.
#[derive(Clone)]
pub struct Sandbox {
    engine: TickingEngine,
    limits: Arc<Effective>,
    /// Instances at once: a full pool means waiting, never an error.
    pooled: Queue,
    on_demand: Queue,
    processor: Processor,
    compiler: Compiler,
}

/// A component linked with exactly what was granted.
#[derive(Clone)]
pub struct Step {
    sandbox: Sandbox,
    instance: InstancePre<AttemptState>,
    allocation: Allocation,
    limits: Arc<Effective>,
    /// The component.
    pub digest: Digest,
}

/// Limits with their name, and with what of them is not a host's default.
struct Effective {
    limits: Limits,
    digest: Digest,
    changed: AttemptLimits,
}

impl Effective {
    fn of(limits: Limits) -> Arc<Self> {
        Arc::new(Self { digest: limits.digest(), changed: AttemptLimits::default(), limits })
    }
}

impl Step {
    /// The step under other limits than the sandbox's: those of the node's policy bundle, lowered by those of
    /// the definition.
    #[must_use]
    pub fn with_limits(mut self, node: &AttemptLimits, step: &AttemptLimits) -> Self {
        if !node.is_empty() || !step.is_empty() {
            let defaults = &self.sandbox.limits.limits;
            let limits = defaults.with(node).under(step);
            self.limits =
                Arc::new(Effective { digest: limits.digest(), changed: limits.changed_from(defaults), limits });
        }
        self
    }

    /// Names the limits under which it runs: a replay under others may end elsewhere.
    #[must_use]
    pub fn limits_digest(&self) -> Digest {
        self.limits.digest
    }

    /// Those limits of it that are not the sandbox's.
    #[must_use]
    pub fn changed_limits(&self) -> AttemptLimits {
        self.limits.changed
    }
}

impl Sandbox {
    /// A sandbox that runs at most `slots` calls at once; more wait.
    ///
    /// # Errors
    /// When components cannot be run on this machine at all.
    pub fn new(slots: u32, limits: Limits) -> wasmtime::Result<Self> {
        Self::with_pressure(slots, limits, &Pressure::default())
    }

    /// The same; who waits is felt in `pressure`.
    ///
    /// # Errors
    /// When components cannot be run on this machine at all.
    pub fn with_pressure(slots: u32, limits: Limits, pressure: &Pressure) -> wasmtime::Result<Self> {
        let engine = TickingEngine::new(slots)?;
        let slots = slots as usize;
        Ok(Self {
            compiler: Compiler::new(engine.clone(), None),
            engine,
            limits: Effective::of(limits),
            pooled: Queue::new(slots, pressure),
            on_demand: Queue::new(slots / ON_DEMAND_PART, pressure),
            processor: Processor::new(),
        })
    }

    /// The same with a cache of compiled code on disk.
    #[must_use]
    pub fn with_code_cache(mut self, cache: CodeCache) -> Self {
        self.compiler = Compiler::new(self.engine.clone(), Some(cache));
        self
    }

    /// The cache of compiled code, if there is one.
    #[must_use]
    pub fn code_cache(&self) -> Option<&CodeCache> {
        self.compiler.disk()
    }

    /// The most components that were compiled at once so far; never more than [`COMPILATIONS`].
    #[must_use]
    pub fn compiled_at_once(&self) -> usize {
        self.compiler.most_at_once()
    }

    /// Places that are free now: of the pool, and beside it.
    #[must_use]
    pub fn free_places(&self) -> (usize, usize) {
        (self.pooled.free(), self.on_demand.free())
    }

    const fn place(&self, allocation: Allocation) -> &Queue {
        match allocation {
            Allocation::Pooled => &self.pooled,
            Allocation::OnDemand => &self.on_demand,
        }
    }

    /// Whether components that fit run from a pool.
    #[must_use]
    pub const fn is_pooled(&self) -> bool {
        matches!(self.engine.allocation(), Allocation::Pooled)
    }

    /// The engine, for measuring against.
    #[must_use]
    pub const fn engine(&self) -> &TickingEngine {
        &self.engine
    }

    /// Compiles a component, once per digest and, with a cache, once per node. `content` must be the very
    /// bytes that were verified: they are hashed here once more, and this buffer is what is compiled.
    ///
    /// # Errors
    /// When the bytes are no component, are too many, or take too long.
    pub async fn compile(&self, content: bytes::Bytes) -> Result<Arc<Compiled>, LoadError> {
        self.compiler.compile(content).await
    }

    /// Links a component with what `grants` gives and nothing else.
    ///
    /// # Errors
    /// When it imports something that is not granted; nothing of it has run then.
    pub fn link(&self, compiled: &Compiled, grants: &Grants) -> Result<Step, LoadError> {
        let digest = compiled.digest;
        if !off(Protection::ImportsAreGranted) {
            compiled.imports.check(grants).map_err(|reason| LoadError::Refused { digest, reason })?;
        }
        let granted = if off(Protection::OnlyGrantsAreLinked) { Capability::ALL.into() } else { grants.capabilities() };
        let key: Vec<Capability> = granted.iter().copied().collect();
        let instance = match compiled.linked.get(&key) {
            Some(instance) => instance,
            None => {
                let instance = link(&compiled.component, &granted)
                    .map_err(|error| LoadError::Refused { digest, reason: format!("{error:#}") })?;
                compiled.linked.insert(key, instance.clone());
                instance
            }
        };
        Ok(self.step(compiled, instance))
    }

    /// Links a component with everything that it imports. It must not reach this machine: what is behind its
    /// capabilities denies, and a tape answers for them.
    ///
    /// # Errors
    /// When it imports what no grant can give.
    pub fn link_answered(&self, compiled: &Compiled) -> Result<Step, LoadError> {
        let refused = |reason: String| LoadError::Refused { digest: compiled.digest, reason };
        if let Some(name) = compiled.imports.unknown.first() {
            return Err(refused(format!("it imports `{name}`, which no grant can give a step")));
        }
        let instance =
            link(&compiled.component, &compiled.imports.capabilities).map_err(|error| refused(format!("{error:#}")))?;
        Ok(self.step(compiled, instance))
    }

    fn step(&self, compiled: &Compiled, instance: InstancePre<AttemptState>) -> Step {
        let limits = Arc::clone(&self.limits);
        Step { sandbox: self.clone(), instance, allocation: compiled.allocation, limits, digest: compiled.digest }
    }

    /// Asks a component what it is. It gets no capability while it answers.
    ///
    /// # Errors
    /// When it cannot be loaded, fails, or answers something that is no descriptor.
    pub async fn describe(&self, compiled: &Compiled) -> Result<Descriptor, LoadError> {
        let refused = |reason: String| LoadError::Refused { digest: compiled.digest, reason };
        // Everything it imports is linked, and every capability behind it denies.
        let step = self.link_answered(compiled)?;
        let text = step.describe().await.map_err(|failure| refused(failure.to_string()))?;
        if text.len() > DESCRIPTOR_LIMIT {
            return Err(refused(format!("its descriptor has {} bytes and may have {DESCRIPTOR_LIMIT}", text.len())));
        }
        serde_json::from_str(&text).map_err(|error| refused(format!("its descriptor is malformed: {error}")))
    }
}

fn link(component: &Component, granted: &BTreeSet<Capability>) -> wasmtime::Result<InstancePre<AttemptState>> {
    let mut linker = Linker::new(component.engine());
    inert::link(&mut linker)?;
    capabilities::link(&mut linker, granted)?;
    linker.instantiate_pre(component)
}
