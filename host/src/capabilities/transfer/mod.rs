//! `transfer`: bulk data from registries to files, hashed while it streams.

mod blob;
mod calls;
mod carried;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use fettle_model::{
    credential::CredentialType,
    definition::ArtifactConstraints,
    digest::Digest,
    egress::Egress,
    failure::{Failure, FailureClass},
    grant::TransferGrant,
    policy::PolicyBundle,
    reference::{Reference, Repository},
    task::LogLevel,
};
use fettle_supply::RegistryClient;
use futures::{StreamExt as _, TryStreamExt as _};
use tokio_util::sync::CancellationToken;

use self::{
    blob::{Meter, Target},
    carried::Carried,
};
use super::{
    Node,
    credentials::{IssueError, Purse},
    denials::Denials,
    denied, files, report,
};
use crate::queue::Queue;
use crate::sandbox::bindings::fettle::transfer::transfer::{Blob, Error, Manifest, Transferred};

/// Most bytes of a manifest.
const MANIFEST_LIMIT: u64 = 4 << 20;
/// Most blobs of one call.
const BLOBS: usize = 256;
/// Blobs of one call that are fetched at once.
const CONCURRENT: usize = 4;

/// What a step is told whose transfer was broken off.
const CANCELED: &str = "the operation was canceled";

/// Policies whose clients are kept; a node has one, and two while it changes.
const CLIENTS: usize = 8;

/// How blobs are fetched.
#[derive(Clone)]
pub struct Transfers {
    registry: RegistryClient,
    /// One client per policy: a connection that one policy allowed is not used under another.
    clients: Arc<Mutex<BTreeMap<Egress, RegistryClient>>>,
}

/// What one step may fetch.
#[derive(Clone, Default)]
pub struct Configured(Option<Arc<Granted>>);

struct Granted {
    grant: TransferGrant,
    constraints: Option<ArtifactConstraints>,
    files: files::Configured,
    registry: RegistryClient,
    queue: Queue,
}

/// The state of one attempt.
#[derive(Default)]
pub struct Transfer {
    granted: Option<Arc<Granted>>,
    report: report::Handle,
    denials: Denials,
    /// Sizes of the blobs that were asked for, by repository.
    asked: BTreeMap<Repository, BTreeMap<Digest, u64>>,
    /// The credentials of the task.
    purse: Option<Arc<Purse>>,
    carried: Carried,
    /// Transfers break off when it is canceled; what is there is kept for a later attempt.
    pub(super) stop: CancellationToken,
}

impl Transfers {
    /// Fetches as `registry` does, under the policy of each task.
    #[must_use]
    pub fn new(registry: RegistryClient) -> Self {
        Self { registry, clients: Arc::default() }
    }

    fn under(&self, egress: &Egress) -> Result<RegistryClient, Failure> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(egress) {
            return Ok(client.clone());
        }
        let guard = self.registry.options().guard.under(egress);
        let client = self
            .registry
            .guarded(guard)
            .map_err(|error| Failure::new(FailureClass::Permanent, "transfer.client", error.to_string()))?;
        if clients.len() >= CLIENTS {
            clients.clear();
        }
        clients.insert(egress.clone(), client.clone());
        Ok(client)
    }
}

impl Configured {
    pub(super) fn new(
        grant: Option<&TransferGrant>,
        constraints: Option<&ArtifactConstraints>,
        files: &files::Configured,
        policy: &PolicyBundle,
        node: &Node,
    ) -> Result<Self, Failure> {
        let Some(grant) = grant else { return Ok(Self(None)) };
        let registry = node.transfers.under(&policy.egress)?;
        for entry in &grant.hosts {
            let host = entry.rsplit_once(':').map_or(entry.as_str(), |(host, _)| host);
            let checked = registry.options().guard.check_host(host);
            checked.map_err(|refused| denied("egress.private-address", refused.to_string()))?;
        }
        let (grant, constraints, files) = (grant.clone(), constraints.cloned(), files.clone());
        let queue = node.queues.transfers.clone();
        Ok(Self(Some(Arc::new(Granted { grant, constraints, files, registry, queue }))))
    }

    pub(super) fn prepare(&self, purse: Option<Arc<Purse>>, report: report::Handle, denials: Denials) -> Transfer {
        Transfer { granted: self.0.clone(), purse, report, denials, ..Transfer::default() }
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

    /// All blobs that the attempt asks of one repository together stay within what the definition allows.
    fn check_size(&self, asked: &BTreeMap<Digest, u64>) -> Result<(), Error> {
        let total = asked.values().fold(0_u64, |total, size| total.saturating_add(*size));
        match self.constraints.as_ref().and_then(|constraints| constraints.max_size_bytes) {
            Some(limit) if total > limit => Err(Error::LimitExceeded(format!(
                "{total} bytes, and the definition's `artifact_constraints.max_size_bytes` is {limit}"
            ))),
            _ => Ok(()),
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
    pub(super) async fn authorize(&mut self, credential: String) -> Result<(), Error> {
        let granted = self.granted.as_ref().ok_or(Error::AccessDenied)?;
        let may = granted.grant.credentials.contains(&CredentialType::OciPull);
        let Some(purse) = self.purse.as_ref().filter(|_| may) else {
            self.denials.note("transfer.credentials", &granted.grant.credentials, CredentialType::OciPull);
            return Err(Error::AccessDenied);
        };
        self.carried.connect(&granted.registry).map_err(Error::Failed)?;
        let added = self.carried.add(purse, credential).await;
        added.map_err(|error| of_issue(error, &self.report, &self.denials))
    }

    pub(super) async fn pull_manifest(&mut self, reference: String) -> Result<Manifest, Error> {
        let granted = self.granted.as_ref().ok_or(Error::AccessDenied)?;
        let reference: Reference = reference
            .parse()
            .map_err(|error: fettle_model::reference::ParseReferenceError| Error::InvalidRequest(error.to_string()))?;
        granted.allows(&reference.repository, &self.denials)?;
        let place = (&reference.repository, reference.digest);
        let registry = self.carried.client(self.purse.as_ref(), &granted.registry, place).await;
        let registry = registry.map_err(|error| of_issue(error, &self.report, &self.denials))?;
        let manifest = registry
            .fetch_manifest(&reference, MANIFEST_LIMIT)
            .await
            .map_err(|error| blob::of_supply(&error, &self.report, &self.denials))?;
        self.carried.learn(&reference, &manifest.content);
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
        let asked = self.asked.entry(repository.clone()).or_default();
        asked.extend(targets.iter().map(|target| (target.digest, target.size)));
        granted.check_size(asked)?;
        let total = targets.iter().fold(0_u64, |total, target| total.saturating_add(target.size));
        let meter = Arc::new(Meter::new(self.report.clone(), self.denials.clone(), total));
        let (carried, purse) = (&self.carried, self.purse.as_ref());
        let (report, denials) = (&self.report, &self.denials);
        let transfers = targets.into_iter().map(|target| {
            let (granted, repository, meter) = (Arc::clone(granted), repository.clone(), Arc::clone(&meter));
            async move {
                let _place = granted.queue.enter().await.map_err(|closed| Error::Failed(closed.to_string()))?;
                let registry = carried.client(purse, &granted.registry, (&repository, target.digest)).await;
                let registry = registry.map_err(|error| of_issue(error, report, denials))?;
                blob::pull(&registry, &granted.files, &repository, &target, &meter).await
            }
        });
        tokio::select! {
            pulled = futures::stream::iter(transfers).buffered(CONCURRENT).try_collect() => pulled,
            () = self.stop.cancelled() => Err(Error::Unavailable(CANCELED.to_owned())),
        }
    }
}

/// The step learns that it was denied; why, is for the people who read its log.
fn of_issue(error: IssueError, report: &report::Handle, denials: &Denials) -> Error {
    match error {
        IssueError::Unavailable(reason) => Error::Unavailable(reason),
        IssueError::Refused { .. } | IssueError::NoHandle(_) => {
            let rule = match &error {
                IssueError::Refused { code, .. } => code.as_str(),
                _ => "transfer.credentials",
            };
            denials.note(rule, [""; 0], CredentialType::OciPull);
            report.log(LogLevel::Error, error.to_string());
            Error::AccessDenied
        }
        other => Error::Failed(other.to_string()),
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
