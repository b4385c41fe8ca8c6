//! Runs step components: compiled once, one store per call, every limit enforced.

mod attempt;
pub mod bindings;
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

use std::{collections::BTreeSet, sync::Arc};

use fettle_model::{
    descriptor::Descriptor,
    digest::Digest,
    grant::{Capability, Grants},
};
use quick_cache::sync::Cache;
use wasmtime::{
    Engine, Precompiled,
    component::{Component, InstancePre, Linker},
};

use self::processor::Processor;
pub use self::{
    attempt::{Call, Observation},
    engine::{Allocation, TickingEngine},
    imports::Imports,
    inert::INTERFACES as INERT_INTERFACES,
    limits::{Limit, Limits},
    spent::Spent,
    state::AttemptState,
};
use crate::{
    capabilities,
    queue::{Pressure, Queue},
};

/// Most bytes of a descriptor (wit/step.wit).
const DESCRIPTOR_LIMIT: usize = 256 << 10;

/// Compiled components kept in memory.
const COMPILED_COMPONENTS: usize = 64;

/// Of the slots of the pool, one in so many is for components that run beside it: they are the large ones.
const ON_DEMAND_PART: usize = 4;

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
}

/// Compiles components and runs them.
#[derive(Clone)]
pub struct Sandbox {
    engine: TickingEngine,
    limits: Limits,
    /// Instances at once: a full pool means waiting, never an error.
    pooled: Queue,
    on_demand: Queue,
    processor: Processor,
    compiled: Arc<Cache<Digest, Arc<Compiled>>>,
}

/// A component, compiled and looked at.
pub struct Compiled {
    digest: Digest,
    component: Component,
    allocation: Allocation,
    imports: Imports,
    linked: Cache<Vec<Capability>, InstancePre<AttemptState>>,
}

/// A component linked with exactly what was granted.
#[derive(Clone)]
pub struct Step {
    sandbox: Sandbox,
    instance: InstancePre<AttemptState>,
    allocation: Allocation,
    /// The component.
    pub digest: Digest,
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
            engine,
            limits,
            pooled: Queue::new(slots, pressure),
            on_demand: Queue::new(slots / ON_DEMAND_PART, pressure),
            processor: Processor::new(),
            compiled: Arc::new(Cache::new(COMPILED_COMPONENTS)),
        })
    }

    const fn place(&self, allocation: Allocation) -> &Queue {
        match allocation {
            Allocation::Pooled => &self.pooled,
            Allocation::OnDemand => &self.on_demand,
        }
    }

    /// The engine, for measuring against.
    #[must_use]
    pub const fn engine(&self) -> &TickingEngine {
        &self.engine
    }

    /// Compiles a component, once per digest. `content` must be the very bytes that were verified.
    ///
    /// # Errors
    /// When the bytes are no component.
    pub async fn compile(&self, content: bytes::Bytes) -> Result<Arc<Compiled>, LoadError> {
        let digest = Digest::of(&content);
        let compile = async {
            let engine = self.engine.clone();
            let joined = tokio::task::spawn_blocking(move || compile(&engine, digest, &content)).await;
            let compiled = joined.map_err(|error| LoadError::NotAComponent { digest, reason: error.to_string() })??;
            Ok(Arc::new(compiled))
        };
        self.compiled.get_or_insert_async(&digest, compile).await
    }

    /// Links a component with what `grants` gives and nothing else.
    ///
    /// # Errors
    /// When it imports something that is not granted; nothing of it has run then.
    pub fn link(&self, compiled: &Compiled, grants: &Grants) -> Result<Step, LoadError> {
        let digest = compiled.digest;
        compiled.imports.check(grants).map_err(|reason| LoadError::Refused { digest, reason })?;
        let granted = grants.capabilities();
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
        Ok(Step { sandbox: self.clone(), instance, allocation: compiled.allocation, digest })
    }

    /// Asks a component what it is. It gets no capability while it answers.
    ///
    /// # Errors
    /// When it cannot be loaded, fails, or answers something that is no descriptor.
    pub async fn describe(&self, compiled: &Compiled) -> Result<Descriptor, LoadError> {
        let refused = |reason: String| LoadError::Refused { digest: compiled.digest, reason };
        if let Some(name) = compiled.imports.unknown.first() {
            return Err(refused(format!("it imports `{name}`, which no grant can give a step")));
        }
        // Everything it imports is linked, and every capability behind it denies.
        let instance =
            link(&compiled.component, &compiled.imports.capabilities).map_err(|error| refused(format!("{error:#}")))?;
        let allocation = compiled.allocation;
        let step = Step { sandbox: self.clone(), instance, allocation, digest: compiled.digest };
        let text = step.describe().await.map_err(|failure| refused(failure.to_string()))?;
        if text.len() > DESCRIPTOR_LIMIT {
            return Err(refused(format!("its descriptor has {} bytes and may have {DESCRIPTOR_LIMIT}", text.len())));
        }
        serde_json::from_str(&text).map_err(|error| refused(format!("its descriptor is malformed: {error}")))
    }
}

impl Compiled {
    /// What it imports.
    #[must_use]
    pub const fn imports(&self) -> &Imports {
        &self.imports
    }

    /// Where its instances come from.
    #[must_use]
    pub const fn allocation(&self) -> Allocation {
        self.allocation
    }

    /// The component, for measuring against.
    #[must_use]
    pub const fn component(&self) -> &Component {
        &self.component
    }
}

fn compile(engine: &TickingEngine, digest: Digest, content: &[u8]) -> Result<Compiled, LoadError> {
    let wrong = |reason: String| LoadError::NotAComponent { digest, reason };
    match Engine::detect_precompiled(content) {
        None => {}
        Some(Precompiled::Component | Precompiled::Module) => {
            return Err(wrong("it is compiled machine code; publish the WebAssembly component itself".to_owned()));
        }
    }
    let code = engine
        .precompile(content)
        .map_err(|error| wrong(format!("{error:#}; build it with `cargo build --target wasm32-wasip2`")))?;
    let (component, allocation) = load(engine, &code).map_err(|error| wrong(format!("{error:#}")))?;
    let imports = Imports::of(&component, component.engine());
    Ok(Compiled { digest, component, allocation, imports, linked: Cache::new(16) })
}

#[expect(unsafe_code, reason = "the machine code was made a line before, in this process")]
fn load(engine: &TickingEngine, code: &[u8]) -> wasmtime::Result<(Component, Allocation)> {
    // SAFETY: `compile` passes what `precompile` answered.
    unsafe { engine.load(code) }
}

fn link(component: &Component, granted: &BTreeSet<Capability>) -> wasmtime::Result<InstancePre<AttemptState>> {
    let mut linker = Linker::new(component.engine());
    inert::link(&mut linker)?;
    capabilities::link(&mut linker, granted)?;
    linker.instantiate_pre(component)
}
