//! `transfer`: bulk data from registries to files, hashed while it streams.

mod blob;
mod calls;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use fettle_model::{
    definition::ArtifactConstraints,
    digest::Digest,
    grant::TransferGrant,
    reference::{Reference, Repository},
};
use fettle_supply::RegistryClient;
use futures::{StreamExt as _, TryStreamExt as _};

use self::blob::{Meter, Target};
use super::{Node, denials::Denials, files, report};
use crate::queue::Queue;
use crate::sandbox::bindings::fettle::transfer::transfer::{Blob, Error, Manifest, Transferred};

/// Most bytes of a manifest.
const MANIFEST_LIMIT: u64 = 4 << 20;
/// Most blobs of one call.
const BLOBS: usize = 256;
/// Blobs of one call that are fetched at once.
const CONCURRENT: usize = 4;

/// How blobs are fetched.
#[derive(Clone)]
pub struct Transfers {
    /// The client of all registries.
    pub registry: RegistryClient,
    /// What is being fetched now.
    pub unfinished: Unfinished,
}

/// Destinations that are being fetched now, so that nobody cleans up beneath them.
#[derive(Clone, Default)]
pub struct Unfinished(Arc<Mutex<BTreeSet<PathBuf>>>);

/// What one step may fetch.
#[derive(Clone, Default)]
pub struct Configured(Option<Arc<Granted>>);

struct Granted {
    grant: TransferGrant,
    constraints: Option<ArtifactConstraints>,
    files: files::Configured,
    transfers: Transfers,
    queue: Queue,
}

/// The state of one attempt.
#[derive(Default)]
pub struct Transfer {
    granted: Option<Arc<Granted>>,
    report: report::Handle,
    denials: Denials,
}

impl Configured {
    pub(super) fn new(
        grant: Option<&TransferGrant>,
        constraints: Option<&ArtifactConstraints>,
        files: &files::Configured,
        node: &Node,
    ) -> Self {
        let granted = grant.map(|grant| Granted {
            grant: grant.clone(),
            constraints: constraints.cloned(),
            files: files.clone(),
            transfers: node.transfers.clone(),
            queue: node.queues.transfers.clone(),
        });
        Self(granted.map(Arc::new))
    }

    pub(super) fn prepare(&self, report: report::Handle, denials: Denials) -> Transfer {
        Transfer { granted: self.0.clone(), report, denials }
    }
}

impl Granted {
    fn allows(&self, repository: &Repository, denials: &Denials) -> Result<(), Error> {
        if !self.grant.hosts.contains(repository.registry()) {
            denials.note("transfer.hosts", &self.grant.hosts, repository.registry());
            return Err(Error::AccessDenied);
        }
        match &self.constraints {
            Some(constraints) if !constraints.allows(repository.path()) => {
                let rule = "artifact_constraints.allowed_repositories";
                denials.note(rule, &constraints.allowed_repositories, repository.path());
                Err(Error::AccessDenied)
            }
            _ => Ok(()),
        }
    }

    /// All blobs of one call together stay within what the definition allows.
    fn check_size(&self, targets: &[Target]) -> Result<u64, Error> {
        let total = targets.iter().fold(0_u64, |total, target| total.saturating_add(target.size));
        match self.constraints.as_ref().and_then(|constraints| constraints.max_size_bytes) {
            Some(limit) if total > limit => Err(Error::LimitExceeded(format!(
                "{total} bytes, and the definition's `artifact_constraints.max_size_bytes` is {limit}"
            ))),
            _ => Ok(total),
        }
    }

    fn target(&self, wanted: &Blob, denials: &Denials) -> Result<Target, Error> {
        let digest: Digest = wanted
            .digest
            .parse()
            .map_err(|error: fettle_model::digest::ParseDigestError| Error::InvalidRequest(error.to_string()))?;
        let path = self.files.writable(&wanted.destination, denials).map_err(of_files)?;
        Ok(Target { digest, size: wanted.size, path })
    }
}

impl Transfer {
    pub(super) async fn pull_manifest(&mut self, reference: String) -> Result<Manifest, Error> {
        let granted = self.granted.as_ref().ok_or(Error::AccessDenied)?;
        let reference: Reference = reference
            .parse()
            .map_err(|error: fettle_model::reference::ParseReferenceError| Error::InvalidRequest(error.to_string()))?;
        granted.allows(&reference.repository, &self.denials)?;
        let manifest = granted
            .transfers
            .registry
            .fetch_manifest(&reference, MANIFEST_LIMIT)
            .await
            .map_err(|error| blob::of_supply(&error))?;
        Ok(Manifest { media_type: manifest.media_type, content: manifest.content.to_vec() })
    }

    pub(super) async fn pull_blobs(&mut self, repository: String, blobs: Vec<Blob>) -> Result<Vec<Transferred>, Error> {
        let granted = self.granted.as_ref().ok_or(Error::AccessDenied)?;
        let repository: Repository = repository
            .parse()
            .map_err(|error: fettle_model::reference::ParseReferenceError| Error::InvalidRequest(error.to_string()))?;
        granted.allows(&repository, &self.denials)?;
        if blobs.len() > BLOBS {
            return Err(Error::LimitExceeded(format!("{} blobs at once; at most {BLOBS}", blobs.len())));
        }
        let targets =
            blobs.iter().map(|wanted| granted.target(wanted, &self.denials)).collect::<Result<Vec<_>, _>>()?;
        let meter = Arc::new(Meter::new(self.report.clone(), granted.check_size(&targets)?));
        let transfers = targets.into_iter().map(|target| {
            let (granted, repository, meter) = (Arc::clone(granted), repository.clone(), Arc::clone(&meter));
            async move {
                let _place = granted.queue.enter().await.map_err(|closed| Error::Failed(closed.to_string()))?;
                blob::pull(&granted.transfers, &granted.files, &repository, &target, &meter).await
            }
        });
        futures::stream::iter(transfers).buffered(CONCURRENT).try_collect().await
    }
}

impl Unfinished {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that `destination` is being fetched, until the guard is dropped.
    fn begin(&self, destination: PathBuf) -> Begun {
        self.lock().insert(destination.clone());
        Begun { unfinished: self.clone(), destination }
    }

    /// Whether a fetch to a file in this directory is under way.
    #[must_use]
    pub fn is_busy(&self, directory: &Path) -> bool {
        self.lock().iter().any(|destination| destination.parent() == Some(directory))
    }
}

/// A fetch under way.
struct Begun {
    unfinished: Unfinished,
    destination: PathBuf,
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.unfinished.lock().remove(&self.destination);
    }
}

fn of_files(error: crate::sandbox::bindings::fettle::files::files::Error) -> Error {
    use crate::sandbox::bindings::fettle::files::files::Error as Files;
    match error {
        Files::AccessDenied => Error::AccessDenied,
        Files::InvalidPath(rule) => Error::InvalidRequest(rule),
        Files::NoSpace(text) => Error::NoSpace(text),
        Files::NotFound => Error::Failed("the destination's directory is missing".to_owned()),
        Files::TooLarge(limit) => Error::LimitExceeded(format!("{limit} bytes")),
        Files::Failed(text) => Error::Failed(text),
    }
}
