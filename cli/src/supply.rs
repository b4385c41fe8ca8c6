//! What publishing and verifying commands share: the registry client, the key, the trust policy.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use fettle_model::{
    canonical,
    digest::Digest,
    document,
    reference::{Reference, Repository},
    violation::{Violation, Violations},
};
use fettle_supply::{
    Activation, Artifact, ArtifactKind, ContentStore, NAME_ANNOTATION, RegistryClient, RegistryOptions,
    SignatureFormat, SigningKey, StoreError, Supplier, SupplyError, Trust, TrustFiles, TrustSource, VERSION_ANNOTATION,
    Version,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    author::attested::{self, Attested},
    command::Session,
    error::CommandError,
};

/// The variable with the password of a key.
pub const PASSWORD_VARIABLE: &str = "FETTLE_KEY_PASSWORD";

/// How registries are spoken to.
#[derive(Clone, Debug, Args)]
pub struct RegistryArguments {
    /// A registry (`host:port`) to speak to without TLS; loopback addresses always are. Repeatable.
    #[arg(long, value_name = "HOST:PORT")]
    pub plain_http: Vec<String>,
    /// An OCI image layout directory that stands before all registries. Repeatable.
    #[arg(long, value_name = "DIR")]
    pub oci_layout: Vec<PathBuf>,
}

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

/// With which key.
#[derive(Clone, Debug, Args)]
pub struct SigningArguments {
    /// The private key to sign with; its password is in `FETTLE_KEY_PASSWORD`.
    #[arg(long, env = "FETTLE_KEY", value_name = "FILE")]
    pub key: Option<PathBuf>,
}

/// How to sign.
#[derive(Clone, Debug, Args)]
pub struct SignatureArguments {
    /// In which format to sign: `cosign` (a `.sig` tag), `bundle` (a Sigstore bundle that refers to the
    /// artifact), or `both`.
    #[arg(long, value_enum, default_value_t = Format::Both, value_name = "FORMAT")]
    pub signature_format: Format,
    /// An annotation that is signed along. Repeatable.
    #[arg(short = 'a', long = "annotation", value_name = "KEY=VALUE", value_parser = annotation)]
    pub annotations: Vec<(String, String)>,
}

/// A format of signatures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// As cosign 2 and skopeo read it.
    Cosign,
    /// As cosign 3 reads it.
    Bundle,
    /// Both.
    #[default]
    Both,
}

impl From<Format> for SignatureFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Cosign => Self::Cosign,
            Format::Bundle => Self::Bundle,
            Format::Both => Self::Both,
        }
    }
}

fn annotation(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is no annotation; write KEY=VALUE")),
    }
}

impl SignatureArguments {
    /// Signs an artifact that is in a registry, with these annotations and `more`.
    ///
    /// # Errors
    /// When the registry fails, or an annotation is named twice.
    pub async fn sign(
        &self,
        client: &RegistryClient,
        reference: &Reference,
        key: &SigningKey,
        more: Vec<(String, String)>,
    ) -> Result<(), CommandError> {
        let count = self.annotations.len() + more.len();
        let annotations: BTreeMap<String, String> = self.annotations.iter().cloned().chain(more).collect();
        if annotations.len() != count {
            return Err(CommandError::Missing {
                problem: "an annotation is given twice".to_owned(),
                fix: "name each annotation once".to_owned(),
            });
        }
        Ok(client.sign_as(reference, key, self.signature_format.into(), &annotations).await?)
    }
}

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

/// What was published.
#[derive(Debug, Serialize)]
pub struct Published {
    /// `host:port/path@sha256:<hex>`
    pub reference: Reference,
    /// Short name of the key that signed it.
    pub signed_by: String,
}

impl RegistryArguments {
    /// A client of the registries.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn client(&self) -> Result<RegistryClient, CommandError> {
        let plain_http = self.plain_http.iter().cloned().collect();
        Ok(RegistryClient::new(RegistryOptions {
            plain_http,
            layouts: self.oci_layout.clone(),
            ..RegistryOptions::default()
        })?)
    }
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

    /// What is signed along. The name is the default path, whatever repository it is pushed to.
    /// What is signed along with a release: the artifact's name and its version.
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

impl SigningArguments {
    /// The key.
    ///
    /// # Errors
    /// When it is not said which, or it cannot be used.
    pub fn key(&self, session: &Session) -> Result<SigningKey, CommandError> {
        let path = self.key.as_ref().or(session.context.key.as_ref()).ok_or_else(|| CommandError::Missing {
            problem: "it is not said which key to sign with".to_owned(),
            fix: "pass --key FILE or set FETTLE_KEY; `fettle key generate` makes a key".to_owned(),
        })?;
        let password = std::env::var(PASSWORD_VARIABLE).unwrap_or_default();
        SigningKey::load(path, password.as_bytes()).map_err(|source| CommandError::Key { path: path.clone(), source })
    }
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

/// Reads `NAME=VALUE`.
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

/// Reads a file as text.
///
/// # Errors
/// When it cannot be read.
pub fn read(path: &Path) -> Result<String, CommandError> {
    fs::read_to_string(path).map_err(|source| CommandError::Read { path: path.to_owned(), source })
}

/// Reads a YAML or JSON file strictly.
///
/// # Errors
/// When it cannot be read, or has another form.
pub fn read_document<T: DeserializeOwned>(path: &Path, what: &'static str) -> Result<T, CommandError> {
    document::read(&read(path)?).map_err(|source| CommandError::Document { path: path.to_owned(), what, source })
}
