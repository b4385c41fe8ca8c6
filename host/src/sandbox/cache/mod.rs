//! Compiled code, kept on disk so that a restart does not compile again.
//!
//! To load machine code is to run it, so an entry is used only when this very host made it: it carries
//! an authentication code, made with a key that never leaves the host, over the code and over what it was
//! made from and for. Whatever is wrong with an entry, it costs one compilation and is told.
//!
//! ```text
//! <directory>/key              32 random bytes, made on first use
//! <directory>/entries/<hex>    the entry of the component with that SHA-256
//! ```

mod counters;
mod entry;
mod file;
mod key;

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use fettle_model::digest::Digest;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use wasmtime::component::Component;

pub use self::{counters::CacheCounts, key::FreshKey};
use self::{
    counters::{Counters, count},
    entry::{EngineIdentity, Flaw, HEADER, SEAL},
    key::Key,
};
use super::{Allocation, TickingEngine};
use crate::mutation::{Protection, off};

/// Most bytes that one entry may have. A component of 64 MiB makes about twice as much code.
const ENTRY_LIMIT: u64 = 512 << 20;

/// How long a host that stops waits for what is being written.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why there can be no cache. Everything works without one.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The directory is not one of this user alone.
    #[error("{} cannot keep compiled code; it must be a directory of this user", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is no key.
    #[error("the key {} cannot be used", path.display())]
    Key {
        /// The key.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A cache of compiled code. Cheap to clone; several processes may share one directory.
#[derive(Clone)]
pub struct CodeCache(Arc<Inner>);

struct Inner {
    entries: PathBuf,
    key: Key,
    /// Bytes of all entries together.
    limit: u64,
    counters: Counters,
    /// One entry is written at a time: code waits in memory until it is.
    writer: Semaphore,
    pending: TaskTracker,
}

impl CodeCache {
    /// Opens the cache in `directory`, and makes what is missing. Entries hold `limit` bytes at most;
    /// those that were not used for longest make room.
    ///
    /// # Errors
    /// When the directory or the key cannot be used.
    pub fn open(directory: &Path, limit: u64, fresh_key: FreshKey) -> Result<Self, CacheError> {
        let entries = directory.join("entries");
        for path in [directory, &entries] {
            make_private(path).map_err(|source| CacheError::Directory { path: path.to_owned(), source })?;
        }
        for path in [directory, &entries] {
            file::remove_leftovers(path).map_err(|source| CacheError::Directory { path: path.to_owned(), source })?;
        }
        let key = Key::ensure(directory, fresh_key)?;
        Ok(Self(Arc::new(Inner {
            entries,
            key,
            limit,
            counters: Counters::default(),
            writer: Semaphore::new(1),
            pending: TaskTracker::new(),
        })))
    }

    /// What it did since it was opened.
    #[must_use]
    pub fn counts(&self) -> CacheCounts {
        self.0.counters.read()
    }

    /// Waits until everything that was to be kept is written.
    pub async fn settled(&self) {
        self.0.pending.close();
        self.0.pending.wait().await;
        self.0.pending.reopen();
    }

    /// Gives what is being written a moment, and says what the cache did.
    pub async fn close(&self) {
        let written = tokio::time::timeout(PATIENCE, self.settled()).await.is_ok();
        tracing::info!(counts = ?self.counts(), written, "the cache of compiled code is closed");
    }

    /// The code of a component, if it is there and right. Blocks.
    pub(super) fn load(&self, engine: &TickingEngine, component: Digest) -> Option<(Component, Allocation)> {
        let path = self.0.path(component);
        let found = match file::read(&path, ENTRY_LIMIT, off(Protection::CodeFilesAreOurs)) {
            Ok(file::Found::Nothing) => {
                count(&self.0.counters.misses);
                return None;
            }
            Ok(file::Found::Flawed(flaw)) => Err(flaw),
            Ok(file::Found::Content(file, entry)) => self.0.thaw(engine, component, &entry).inspect(|_| {
                if let Err(error) = file::touch(&file) {
                    tracing::debug!(%error, path = %path.display(), "the use of an entry is not marked");
                }
            }),
            Err(error) => {
                self.0.failed(&path, &error, "compiled code cannot be read; it is compiled again");
                return None;
            }
        };
        match found {
            Ok(loaded) => {
                count(&self.0.counters.hits);
                Some(loaded)
            }
            Err(flaw) => {
                self.0.discard(component, flaw);
                None
            }
        }
    }

    /// Keeps the code of a component, some time from now; nobody waits for it.
    pub(super) fn keep(&self, engine: &TickingEngine, component: Digest, code: Vec<u8>) {
        let engine = EngineIdentity::of(engine.engine());
        let inner = Arc::clone(&self.0);
        self.0.pending.spawn(async move {
            let Ok(_turn) = inner.writer.acquire().await else { return };
            let writing = Arc::clone(&inner);
            if let Err(error) = tokio::task::spawn_blocking(move || writing.write(component, &engine, &code)).await {
                tracing::warn!(%error, %component, "compiled code is not kept");
            }
        });
    }
}

impl Inner {
    fn path(&self, component: Digest) -> PathBuf {
        self.entries.join(component.hex())
    }

    /// Makes code out of an entry that is right in every respect.
    #[expect(unsafe_code, reason = "wasmtime cannot know who made machine code; the seal of the entry says it")]
    fn thaw(&self, engine: &TickingEngine, component: Digest, entry: &[u8]) -> Result<(Component, Allocation), Flaw> {
        let code = entry::open(&self.key, component, &EngineIdentity::of(engine.engine()), entry)?;
        // SAFETY: these bytes are what `TickingEngine::precompile` of the same release and configuration
        // answered to a process of this host for this component: the seal over all of that was right,
        // and they are in memory that nobody else can write.
        unsafe { engine.load(code) }.map_err(|error| {
            tracing::warn!(error = format!("{error:#}"), %component, "wasmtime refuses compiled code");
            Flaw::Unusable
        })
    }

    fn discard(&self, component: Digest, flaw: Flaw) {
        let so_far = self.counters.flaw(flaw);
        let path = self.path(component);
        match flaw {
            Flaw::Stale => tracing::info!(%component, reason = %flaw, so_far, "compiled code is made anew"),
            _ => tracing::warn!(
                target: "fettle::audit",
                event = "code-cache.entry-refused",
                %component,
                reason = %flaw,
                so_far,
                path = %path.display(),
                "compiled code was refused and removed; the component is compiled again"
            ),
        }
        if let Err(error) = file::remove(&path) {
            self.failed(&path, &error, "refused code cannot be removed; it is not used");
        }
    }

    fn write(&self, component: Digest, engine: &EngineIdentity, code: &[u8]) {
        let path = self.path(component);
        match self.try_write(&path, component, engine, code) {
            Ok(()) => {}
            Err(error) => self.failed(&path, &error, "compiled code is not kept; it is compiled again next time"),
        }
    }

    fn try_write(&self, path: &Path, component: Digest, engine: &EngineIdentity, code: &[u8]) -> io::Result<()> {
        let size = (HEADER + code.len() + SEAL) as u64;
        if size > ENTRY_LIMIT.min(self.limit) {
            return Ok(());
        }
        self.make_room(size, path)?;
        let header = entry::header(component, engine, code);
        let mut file = file::temporary(&self.entries)?;
        for part in [&header[..], code, &entry::seal(&self.key, &header, code)] {
            file.write_all(part)?;
        }
        // Or a power cut leaves a name without its content, and the next start takes it for an attack.
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        count(&self.counters.kept);
        Ok(())
    }

    /// Removes entries, those first that were not used for longest, until `wanted` bytes more fit.
    fn make_room(&self, wanted: u64, replaced: &Path) -> io::Result<()> {
        let mut kept: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.entries)? {
            let entry = entry?;
            if entry.path() == replaced || file::is_temporary(&entry.file_name()) {
                continue;
            }
            // Another process may have removed it.
            if let Ok(metadata) = entry.metadata() {
                kept.push((metadata.modified()?, metadata.len(), entry.path()));
            }
        }
        kept.sort();
        let mut total: u64 = kept.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in kept {
            if total + wanted <= self.limit {
                break;
            }
            file::remove(&path)?;
            count(&self.counters.evicted);
            total -= size;
        }
        Ok(())
    }

    fn failed(&self, path: &Path, error: &io::Error, what: &str) {
        let so_far = count(&self.counters.failed);
        tracing::warn!(%error, path = %path.display(), so_far, "{what}");
    }
}

/// A directory that only this user can enter.
fn make_private(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_dir() || metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it is a link, or another user's; remove it, and a new one is made"));
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}

#[cfg(test)]
mod tests;
