//! The credentials that the transfers of one attempt carry: each to its own artifact, and to nothing else of its
//! repository, whatever its token would open.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fettle_model::{
    credential::CredentialType,
    digest::Digest,
    reference::{Reference, Repository},
};
use fettle_supply::{Authorization, RegistryClient};
use serde::Deserialize;

use crate::{
    capabilities::credentials::{Credential, IssueError, Purse},
    mutation::{Protection, off},
};

/// What an attempt was given to carry.
#[derive(Clone, Default)]
pub(super) struct Carried {
    /// By artifact: its handle.
    handles: BTreeMap<Reference, String>,
    /// Digests that a manifest of these artifacts names, and the artifact.
    parts: BTreeMap<(Repository, Digest), Reference>,
    /// Connections of their own: what was sent over them is forgotten with the attempt.
    registry: Option<RegistryClient>,
}

/// One credential, as a client shows it.
struct Shown {
    credential: Arc<Credential>,
    repository: Repository,
}

impl Authorization for Shown {
    fn bearer(&self, repository: &Repository) -> Option<&str> {
        let is_for = self.repository == *repository && self.credential.is_good();
        self.credential.part("token").filter(|_| is_for).map(|token| token.expose())
    }
}

/// What a manifest or an index names.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    config: Option<Descriptor>,
    layers: Vec<Descriptor>,
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Descriptor {
    digest: Digest,
}

impl Carried {
    /// Carries a credential from here on.
    pub(super) async fn add(&mut self, purse: &Purse, handle: String) -> Result<(), IssueError> {
        let credential = purse.open(&handle, CredentialType::OciPull).await?;
        let artifact = credential.intent.artifact().ok_or(IssueError::NoHandle(CredentialType::OciPull))?;
        self.handles.insert(artifact, handle);
        Ok(())
    }

    /// Takes connections of its own.
    pub(super) fn connect(&mut self, registry: &RegistryClient) -> Result<(), String> {
        if self.registry.is_none() {
            let own = registry.guarded(registry.options().guard.clone());
            self.registry = Some(own.map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    /// What the manifest of an artifact names may be fetched as the artifact itself.
    pub(super) fn learn(&mut self, reference: &Reference, manifest: &[u8]) {
        let Some(artifact) = self.artifact(&reference.repository, reference.digest) else { return };
        let Ok(Named { config, layers, manifests }) = serde_json::from_slice(manifest) else { return };
        let named: BTreeSet<Digest> =
            config.into_iter().chain(layers).chain(manifests).map(|descriptor| descriptor.digest).collect();
        for digest in named {
            self.parts.insert((reference.repository.clone(), digest), artifact.clone());
        }
    }

    fn artifact(&self, repository: &Repository, digest: Digest) -> Option<Reference> {
        let itself = Reference { repository: repository.clone(), digest };
        if self.handles.contains_key(&itself) {
            return Some(itself);
        }
        if off(Protection::CredentialsOpenOneArtifact) {
            return self.handles.keys().find(|artifact| artifact.repository == itself.repository).cloned();
        }
        self.parts.get(&(itself.repository, digest)).cloned()
    }

    /// What fetches this, with the credential for it as long as it lasts and with a new one afterwards; `registry` where
    /// none is for it.
    pub(super) async fn client(
        &self,
        purse: Option<&Arc<Purse>>,
        registry: &RegistryClient,
        (repository, digest): (&Repository, Digest),
    ) -> Result<RegistryClient, IssueError> {
        let handle = self.artifact(repository, digest).and_then(|artifact| self.handles.get(&artifact));
        let (Some(handle), Some(purse), Some(own)) = (handle, purse, &self.registry) else {
            return Ok(registry.clone());
        };
        let credential = purse.open(handle, CredentialType::OciPull).await?;
        Ok(own.authorized(Arc::new(Shown { credential, repository: repository.clone() })))
    }
}
