//! `facts`: read-only facts about the node, from the kernel's own files.

mod calls;
mod kernel_log;
mod mounts;
mod read;

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use fettle_model::grant::{Fact, FactsGrant};

pub use self::mounts::Silent;
use super::{Node, denials::Denials};
use crate::blocking::Blocking;
use crate::sandbox::bindings::fettle::facts::facts::{
    Error, Filesystem, KernelMessage, MemoryUsage, Process, SystemInformation,
};

/// How long reading a fact may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// Where facts are read: the machine's own files, or recorded ones.
#[derive(Clone, Debug)]
pub struct Source {
    /// `/dev/kmsg`, or a recording of it.
    pub kernel_log: PathBuf,
    /// `/proc/self/mountinfo`, or a recording of it.
    pub mounts: PathBuf,
    /// Mounts that were asked and have not answered yet.
    pub silent: Silent,
}

impl Default for Source {
    fn default() -> Self {
        let mounts = PathBuf::from("/proc/self/mountinfo");
        Self { kernel_log: PathBuf::from("/dev/kmsg"), mounts, silent: Silent::default() }
    }
}

/// Which facts one step may read.
#[derive(Clone, Default)]
pub struct Configured {
    readable: BTreeSet<Fact>,
    source: Source,
    blocking: Blocking,
}

/// The state of one attempt.
#[derive(Default)]
pub struct Facts {
    configured: Configured,
    denials: Denials,
}

impl Configured {
    pub(super) fn new(grant: Option<&FactsGrant>, node: &Node) -> Self {
        Self {
            readable: grant.map(|grant| grant.read.clone()).unwrap_or_default(),
            source: node.facts.clone(),
            blocking: node.queues.blocking.clone(),
        }
    }

    pub(super) fn prepare(&self, denials: Denials) -> Facts {
        Facts { configured: self.clone(), denials }
    }
}

impl Facts {
    async fn read<T: Send + 'static>(
        &self,
        fact: Fact,
        read: impl FnOnce(&Source) -> Result<T, String> + Send + 'static,
    ) -> Result<T, Error> {
        let Configured { readable, source, blocking } = &self.configured;
        if !readable.contains(&fact) {
            self.denials.note("facts.read", readable, fact);
            return Err(Error::AccessDenied);
        }
        let source = source.clone();
        match blocking.run_within(DEADLINE, "reading a fact", move || read(&source)).await {
            Ok(result) => result.map_err(Error::Unavailable),
            Err(error) => Err(Error::Unavailable(error.to_string())),
        }
    }
}

impl Facts {
    pub(super) async fn system(&mut self) -> Result<SystemInformation, Error> {
        self.read(Fact::System, |_| read::system()).await
    }

    pub(super) async fn memory(&mut self) -> Result<MemoryUsage, Error> {
        self.read(Fact::Memory, |_| read::memory()).await
    }

    pub(super) async fn filesystems(&mut self) -> Result<Vec<Filesystem>, Error> {
        let listed = self.read(Fact::Filesystems, |source| mounts::list(&source.mounts)).await?;
        mounts::ask(&self.configured.blocking, &self.configured.source.silent, listed).await.map_err(Error::Unavailable)
    }

    pub(super) async fn processes(&mut self) -> Result<Vec<Process>, Error> {
        self.read(Fact::Processes, |_| read::processes()).await
    }

    pub(super) async fn kernel_log(&mut self) -> Result<Vec<KernelMessage>, Error> {
        self.read(Fact::KernelLog, |source| kernel_log::read(&source.kernel_log)).await
    }
}
