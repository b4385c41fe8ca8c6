//! Fetching and verifying.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use fettle_model::{digest::Digest, document, reference::Reference};
use fettle_supply::{
    Activation, Artifact, ArtifactKind, ContentStore, RegistryClient, StoreError, Supplier, SupplyError, Trust,
    TrustFiles, TrustSource,
};
use serde::de::DeserializeOwned;

use super::RegistryArguments;
use crate::{
    author::attested::{self, Attested},
    command::Session,
    error::CommandError,
};

/// Whose signatures count.
#[derive(Clone, Debug, Args)]
pub struct TrustArguments {
    /// The trust policy: whose signatures count.
    #[arg(long, env = "FETTLE_TRUST", value_name = "FILE")]
    pub trust: Option<PathBuf>,
    /// A Sigstore `trusted_root.json` that proves identities, for rules that name identities.
    #[arg(long, env = "FETTLE_TRUSTED_ROOT", value_name = "FILE")]
    pub trusted_root: Option<PathBuf>,
    #[command(flatten)]
    registry: RegistryArguments,
}

impl TrustArguments {
    /// A supplier that verifies everything afresh: its store is empty and goes with it.
    ///
    /// # Errors
    /// When there is no trust policy, or it is not valid.
    pub fn supplier(&self, session: &Session) -> Result<TemporarySupplier, CommandError> {
        self.supplier_in(session, None)
    }

    /// The same, with the policies that were activated in a data directory of a plane or a host.
    ///
    /// # Errors
    /// Also when one that was activated does not follow from the trust policy.
    pub fn supplier_in(&self, session: &Session, data: Option<&Path>) -> Result<TemporarySupplier, CommandError> {
        let trust = self.source(session, data)?;
        let directory =
            tempfile::tempdir().map_err(|source| CommandError::Write { path: std::env::temp_dir(), source })?;
        let store = ContentStore::open(directory.path()).map_err(|source| stored(directory.path(), source))?;
        let supplier = Supplier::new(store, self.registry.client()?, trust);
        Ok(TemporarySupplier { supplier, _directory: directory })
    }

    /// Whose signatures count, read once already.
    ///
    /// # Errors
    /// When there is no trust policy, or it cannot be used.
    pub fn source(&self, session: &Session, data: Option<&Path>) -> Result<TrustSource, CommandError> {
        let path = self.trust.as_ref().or(session.context.trust.as_ref()).ok_or_else(|| CommandError::Missing {
            problem: "it is not said whose signatures count".to_owned(),
            fix: "pass --trust FILE or set FETTLE_TRUST; `fettle key generate` prints a trust policy".to_owned(),
        })?;
        let files = TrustFiles::new(path.clone(), self.trusted_root.clone(), data.map(Path::to_owned));
        let source = TrustSource::from(files);
        source.current()?;
        Ok(source)
    }
}

fn stored(directory: &Path, source: StoreError) -> CommandError {
    SupplyError::Store { artifact: directory.display().to_string(), source }.into()
}

/// A supplier with a store of its own.
pub struct TemporarySupplier {
    supplier: Supplier,
    _directory: tempfile::TempDir,
}

impl TemporarySupplier {
    /// Puts a newer trust policy in force.
    ///
    /// # Errors
    /// When it is not accepted, or not newer.
    pub async fn activate(&self, reference: &Reference) -> Result<Activation, CommandError> {
        Ok(self.supplier.activate(reference).await?)
    }

    /// Whose signatures count.
    ///
    /// # Errors
    /// When the trust policy has become unusable.
    pub fn trust(&self) -> Result<Arc<Trust>, CommandError> {
        Ok(self.supplier.trust()?)
    }

    /// A verified artifact.
    ///
    /// # Errors
    /// One of the four verdicts.
    pub async fn artifact(&self, kind: ArtifactKind, reference: &Reference) -> Result<Artifact, CommandError> {
        Ok(self.supplier.artifact(kind, reference).await?)
    }

    /// Every statement that is attached to a step, judged; `component` is what it holds.
    ///
    /// # Errors
    /// When the registry cannot say.
    pub async fn attested(&self, reference: &Reference, component: Digest) -> Result<Vec<Attested>, CommandError> {
        let found = self.supplier.attestations(ArtifactKind::Step, reference).await?;
        Ok(found.into_iter().map(|(evidence, stated)| attested::judge(&evidence, stated, component)).collect())
    }

    /// The registry that everything comes from.
    #[must_use]
    pub fn registry(&self) -> &RegistryClient {
        self.supplier.registry()
    }

    /// A verified document.
    ///
    /// # Errors
    /// One of the four verdicts, or when it is signed and has the wrong form.
    pub async fn document<T: DeserializeOwned>(
        &self,
        kind: ArtifactKind,
        reference: &Reference,
    ) -> Result<T, CommandError> {
        let artifact = self.artifact(kind, reference).await?;
        document::read(&String::from_utf8_lossy(&artifact.content)).map_err(|source| CommandError::SignedDocument {
            subject: reference.to_string(),
            what: kind.name(),
            source,
        })
    }
}
