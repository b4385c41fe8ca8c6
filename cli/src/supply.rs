//! What publishing and verifying commands share: the registry client, the key, the trust policy.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use fettle_model::{
    canonical, document,
    reference::{Reference, Repository},
    violation::{Violation, Violations},
};
use fettle_supply::{
    Activation, Artifact, ArtifactKind, ContentStore, NAME_ANNOTATION, RegistryClient, RegistryOptions,
    SignatureFormat, SigningKey, StoreError, Supplier, SupplyError, Trust, TrustFiles, TrustSource, VERSION_ANNOTATION,
    Version,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{command::Session, error::CommandError};

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
    /// The private key to sign with; its password is in `FETTLE_KEY_PASSWORD`.
    #[arg(long, env = "FETTLE_KEY", value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// The version that is published, like `1.4.0`. It is signed along, with the artifact's name, so that
    /// trust policies can refuse older ones.
    #[arg(long, value_name = "VERSION")]
    pub release: Option<Version>,
    #[command(flatten)]
    signature: SignatureArguments,
    #[command(flatten)]
    registry: RegistryArguments,
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
        let key = self.key(session)?;
        let client = self.registry.client()?;
        let reference = client.push(kind, &repository, content, descriptor).await?;
        self.signature.sign(&client, &reference, &key, self.version(default_path)).await?;
        Ok(Published { reference, signed_by: key.public().id().to_string() })
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

    fn key(&self, session: &Session) -> Result<SigningKey, CommandError> {
        load_key(self.key.as_ref(), session)
    }
}

/// The key that is named, or that of the context.
///
/// # Errors
/// When none is, or it cannot be read.
pub fn load_key(named: Option<&PathBuf>, session: &Session) -> Result<SigningKey, CommandError> {
    let path = named.or(session.context.key.as_ref()).ok_or_else(|| CommandError::Missing {
        problem: "it is not said which key to sign with".to_owned(),
        fix: "pass --key FILE or set FETTLE_KEY; `fettle key generate` makes a key".to_owned(),
    })?;
    let password = std::env::var(PASSWORD_VARIABLE).unwrap_or_default();
    SigningKey::load(path, password.as_bytes()).map_err(|source| CommandError::Key { path: path.clone(), source })
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
