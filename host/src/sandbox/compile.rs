//! From verified bytes to compiled code: memory, then disk, then the compiler.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use fettle_model::{digest::Digest, grant::Capability};
use quick_cache::{Weighter, sync::Cache};
use tokio::sync::Semaphore;
use wasmtime::{
    Engine, Precompiled,
    component::{Component, InstancePre},
};

use super::{Allocation, AttemptState, Imports, LoadError, TickingEngine, cache::CodeCache};

/// Most bytes of a component. The largest that a toolchain makes, Python's, has 18 MB.
pub const COMPONENT_LIMIT: usize = 64 << 20;

/// Components that are compiled at once. Each uses all processors, and several times its size of memory.
pub const COMPILATIONS: usize = 2;

/// Longest that anybody waits for a compilation.
const PATIENCE: Duration = Duration::from_secs(300);

/// Compiled components kept in memory, about, and the bytes of all their code.
const KEPT: usize = 64;
const KEPT_BYTES: u64 = 1 << 30;

/// A component, compiled and looked at.
pub struct Compiled {
    pub(super) digest: Digest,
    pub(super) component: Component,
    pub(super) allocation: Allocation,
    pub(super) imports: Imports,
    pub(super) linked: Cache<Vec<Capability>, InstancePre<AttemptState>>,
}

impl Compiled {
    fn new(digest: Digest, (component, allocation): (Component, Allocation)) -> Self {
        let imports = Imports::of(&component, component.engine());
        Self { digest, component, allocation, imports, linked: Cache::new(16) }
    }

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

    /// Bytes of its code.
    fn size(&self) -> u64 {
        let image = self.component.image_range();
        (image.end as usize).saturating_sub(image.start as usize) as u64
    }
}

#[derive(Clone)]
struct Size;

impl Weighter<Digest, Arc<Compiled>> for Size {
    fn weight(&self, _: &Digest, compiled: &Arc<Compiled>) -> u64 {
        compiled.size().max(1)
    }
}

/// Compiles components, each digest once.
#[derive(Clone)]
pub(super) struct Compiler(Arc<Inner>);

struct Inner {
    engine: TickingEngine,
    memory: Cache<Digest, Arc<Compiled>, Size>,
    disk: Option<CodeCache>,
    turns: Arc<Semaphore>,
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Compiler {
    pub(super) fn new(engine: TickingEngine, disk: Option<CodeCache>) -> Self {
        Self(Arc::new(Inner {
            engine,
            memory: Cache::with_weighter(KEPT, KEPT_BYTES, Size),
            disk,
            turns: Arc::new(Semaphore::new(COMPILATIONS)),
            running: Arc::default(),
            most: Arc::default(),
        }))
    }

    pub(super) fn disk(&self) -> Option<&CodeCache> {
        self.0.disk.as_ref()
    }

    /// The most components that were compiled at once.
    pub(super) fn most_at_once(&self) -> usize {
        self.0.most.load(Ordering::Relaxed)
    }

    /// The compiled form of these very bytes.
    pub(super) async fn compile(&self, content: Bytes) -> Result<Arc<Compiled>, LoadError> {
        if content.len() > COMPONENT_LIMIT {
            return Err(LoadError::TooLarge { size: content.len(), limit: COMPONENT_LIMIT });
        }
        // The name under which code is kept is computed here, from the buffer that is compiled.
        let digest = Digest::of(&content);
        self.0.memory.get_or_insert_async(&digest, self.load(digest, content)).await
    }

    async fn load(&self, digest: Digest, content: Bytes) -> Result<Arc<Compiled>, LoadError> {
        let this = self.clone();
        if let Some(compiled) = blocking(digest, move || Ok(this.read_from_disk(digest))).await? {
            return Ok(Arc::new(compiled));
        }
        let turn = Arc::clone(&self.0.turns).acquire_owned().await;
        let this = self.clone();
        let work = blocking(digest, move || {
            // Held by the work and not by who waits for it: that one may give up.
            let _turn = turn;
            this.compile_source(digest, &content)
        });
        match tokio::time::timeout(PATIENCE, work).await {
            Ok(compiled) => compiled.map(Arc::new),
            Err(_) => Err(LoadError::TooSlow { digest, seconds: PATIENCE.as_secs() }),
        }
    }

    fn read_from_disk(&self, digest: Digest) -> Option<Compiled> {
        self.0.disk.as_ref()?.load(&self.0.engine, digest).map(|loaded| Compiled::new(digest, loaded))
    }

    fn compile_source(&self, digest: Digest, content: &[u8]) -> Result<Compiled, LoadError> {
        let running = self.0.running.fetch_add(1, Ordering::Relaxed) + 1;
        self.0.most.fetch_max(running, Ordering::Relaxed);
        let compiled = compile(&self.0.engine, digest, content);
        self.0.running.fetch_sub(1, Ordering::Relaxed);
        let (loaded, code) = compiled?;
        if let Some(disk) = &self.0.disk {
            disk.keep(&self.0.engine, digest, code);
        }
        Ok(Compiled::new(digest, loaded))
    }
}

async fn blocking<T: Send + 'static>(
    digest: Digest,
    work: impl FnOnce() -> Result<T, LoadError> + Send + 'static,
) -> Result<T, LoadError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(LoadError::NotAComponent { digest, reason: error.to_string() }),
    }
}

type Loaded = (Component, Allocation);

fn compile(engine: &TickingEngine, digest: Digest, content: &[u8]) -> Result<(Loaded, Vec<u8>), LoadError> {
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
    let loaded = load(engine, &code).map_err(|error| wrong(format!("{error:#}")))?;
    Ok((loaded, code))
}

#[expect(unsafe_code, reason = "the machine code was made a line before, in this process")]
fn load(engine: &TickingEngine, code: &[u8]) -> wasmtime::Result<Loaded> {
    // SAFETY: `compile` passes what `precompile` answered.
    unsafe { engine.load(code) }
}
