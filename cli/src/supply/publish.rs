//! Pushing, signing and attesting.

use clap::Args;
use fettle_model::{
    canonical,
    reference::{Reference, Repository},
    violation::{Violation, Violations},
};
use fettle_supply::{ArtifactKind, NAME_ANNOTATION, RegistryClient, SigningKey, VERSION_ANNOTATION, Version};
use serde::Serialize;
use serde_json::Value;

use super::{RegistryArguments, SignatureArguments, SigningArguments};
use crate::{command::Session, error::CommandError};

/// Where to publish, and with which key.
#[derive(Clone, Debug, Args)]
pub struct PublishArguments {
    /// Where to push to; a place in the registry of the context file when absent.
    #[arg(long, value_name = "HOST:PORT/PATH")]
    pub repository: Option<Repository>,
    #[command(flatten)]
    signing: SigningArguments,
    /// The version that is published, like `1.4.0`. It is signed along, with the artifact's name, so that
    /// trust policies can refuse older ones.
    #[arg(long, value_name = "VERSION")]
    pub release: Option<Version>,
    #[command(flatten)]
    signature: SignatureArguments,
    #[command(flatten)]
    registry: RegistryArguments,
}

/// What was published.
#[derive(Debug, Serialize)]
pub struct Published {
    /// `host:port/path@sha256:<hex>`
    pub reference: Reference,
    /// Short name of the key that signed it.
    pub signed_by: String,
}

impl PublishArguments {
    /// Pushes and signs. `default_path` is where it goes in the context's registry.
    ///
    /// # Errors
    /// When there is no place or no key, or the registry fails.
    pub async fn publish(
        &self,
        session: &Session,
        kind: ArtifactKind,
        default_path: &str,
        content: Vec<u8>,
        descriptor: Option<serde_json::Value>,
    ) -> Result<Published, CommandError> {
        // All that can be wrong here is found before anything is pushed.
        let repository = self.repository(session, default_path)?;
        let key = self.signing.key(session)?;
        let client = self.registry.client()?;
        let reference = client.push(kind, &repository, content, descriptor).await?;
        self.signature.sign(&client, &reference, &key, self.version(default_path)).await?;
        Ok(Published { reference, signed_by: key.public().id().to_string() })
    }

    /// Signs statements about what was published, each a predicate with its type, and attaches them.
    ///
    /// # Errors
    /// When there is no key, or the registry fails.
    pub async fn attest(
        &self,
        session: &Session,
        reference: &Reference,
        predicates: &[(&'static str, Value)],
    ) -> Result<(), CommandError> {
        attest(&self.registry.client()?, &self.signing.key(session)?, reference, predicates).await
    }

    /// Pushes and signs a document in canonical JSON.
    ///
    /// # Errors
    /// As [`Self::publish`].
    pub async fn publish_document<T: Serialize + Sync>(
        &self,
        session: &Session,
        kind: ArtifactKind,
        default_path: &str,
        document: &T,
    ) -> Result<Published, CommandError> {
        let content = canonical::to_bytes(document).map_err(|error| CommandError::Broken {
            subject: format!("the {kind}"),
            violations: Violations(vec![Violation::new("", error.to_string())]),
        })?;
        self.publish(session, kind, default_path, content, None).await
    }

    /// What is signed along with a release: the artifact's name, which is the default path whatever
    /// repository it is pushed to, and its version.
    fn version(&self, name: &str) -> Vec<(String, String)> {
        let named = |version: &Version| {
            [(NAME_ANNOTATION.to_owned(), name.to_owned()), (VERSION_ANNOTATION.to_owned(), version.to_string())]
        };
        self.release.iter().flat_map(named).collect()
    }

    fn repository(&self, session: &Session, default_path: &str) -> Result<Repository, CommandError> {
        let missing = || CommandError::Missing {
            problem: "it is not said where to push to".to_owned(),
            fix: "pass --repository host:port/path, or start `fettle dev`, which has a registry".to_owned(),
        };
        match (&self.repository, &session.context.registry) {
            (Some(repository), _) => Ok(repository.clone()),
            (None, Some(registry)) => format!("{registry}/{default_path}").parse().map_err(|_| missing()),
            (None, None) => Err(missing()),
        }
    }
}

/// Signs statements about an artifact and attaches them; those that this key made already stay as they
/// are.
///
/// # Errors
/// When the registry fails.
pub async fn attest(
    client: &RegistryClient,
    key: &SigningKey,
    reference: &Reference,
    predicates: &[(&'static str, Value)],
) -> Result<(), CommandError> {
    let own = std::slice::from_ref(key.public());
    let present: Vec<(String, Value)> = client
        .fetch_attestations(reference)
        .await?
        .iter()
        .filter_map(|evidence| evidence.statement_by(reference.digest, own, None).ok())
        .map(|attestation| (attestation.predicate_type, attestation.predicate))
        .collect();
    for (predicate_type, predicate) in predicates {
        if !present.iter().any(|(known, content)| known == predicate_type && content == predicate) {
            client.attest(reference, key, predicate_type, predicate).await?;
        }
    }
    Ok(())
}
