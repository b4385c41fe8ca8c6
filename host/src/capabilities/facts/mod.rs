//! `facts`: read-only facts about the node, from the kernel's own files.

mod calls;
mod kernel_log;
mod read;

use std::{collections::BTreeSet, path::PathBuf};

use fettle_model::grant::{Fact, FactsGrant};

use super::Node;
use crate::sandbox::bindings::fettle::facts::facts::{
    Error, Filesystem, KernelMessage, MemoryUsage, Process, SystemInformation,
};

/// Where facts are read: the machine's own files, or recorded ones.
#[derive(Clone, Debug)]
pub struct Source {
    /// `/dev/kmsg`, or a recording of it.
    pub kernel_log: PathBuf,
}

impl Default for Source {
    fn default() -> Self {
        Self { kernel_log: PathBuf::from("/dev/kmsg") }
    }
}

/// Which facts one step may read.
#[derive(Clone, Default)]
pub struct Configured {
    readable: BTreeSet<Fact>,
    source: Source,
}

/// The state of one attempt.
#[derive(Default)]
pub struct Facts(Configured);

impl Configured {
    pub(super) fn new(grant: Option<&FactsGrant>, node: &Node) -> Self {
        Self { readable: grant.map(|grant| grant.read.clone()).unwrap_or_default(), source: node.facts.clone() }
    }

    pub(super) fn prepare(&self) -> Facts {
        Facts(self.clone())
    }
}

impl Facts {
    async fn read<T: Send + 'static>(
        &self,
        fact: Fact,
        read: impl FnOnce(&Source) -> Result<T, String> + Send + 'static,
    ) -> Result<T, Error> {
        if !self.0.readable.contains(&fact) {
            return Err(Error::AccessDenied);
        }
        let source = self.0.source.clone();
        match tokio::task::spawn_blocking(move || read(&source)).await {
            Ok(result) => result.map_err(Error::Unavailable),
            Err(error) => Err(Error::Unavailable(format!("reading it was abandoned: {error}"))),
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
        self.read(Fact::Filesystems, |_| read::filesystems()).await
    }

    pub(super) async fn processes(&mut self) -> Result<Vec<Process>, Error> {
        self.read(Fact::Processes, |_| read::processes()).await
    }

    pub(super) async fn kernel_log(&mut self) -> Result<Vec<KernelMessage>, Error> {
        self.read(Fact::KernelLog, |source| kernel_log::read(&source.kernel_log)).await
    }
}
