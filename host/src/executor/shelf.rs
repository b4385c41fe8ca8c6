//! What was verified, read and compiled once in the life of this process, by reference and by what was
//! trusted then. A reference names bytes by digest, so what was true once stays true as long as the same
//! is trusted; when the trust policy changes, nothing that is kept here counts any more.
//!
//! A component is compiled from the very buffer that was hashed: `Artifact::content` of the supplier goes
//! to the sandbox as it is, and no file is looked at in between.

use std::sync::Arc;

use fettle_model::{
    activation::PolicyActivation,
    catalog::Catalog,
    definition::Definition,
    descriptor::Descriptor,
    digest::Digest,
    failure::{Failure, FailureClass},
    plan::{PlanError, Resolved, Sources},
    policy::PolicyBundle,
    reference::Reference,
    schema::Schema,
};
use fettle_supply::{ArtifactKind, Supplier, SupplyError};
use quick_cache::sync::Cache;
use serde::de::DeserializeOwned;

use super::{component::Code, failure, preflight::refused};
use crate::sandbox::{LoadError, Sandbox};
#[cfg(feature = "simulation")]
use crate::simulation::{Library, Scripted};

/// Entries of each kind that are kept.
const ENTRIES: usize = 128;

/// A component, compiled, with what it says of itself and what was signed of it.
pub(super) struct Loaded {
    pub(super) code: Code,
    pub(super) descriptor: Descriptor,
    pub(super) signed: Option<Descriptor>,
    /// The descriptor's schemas, ready to check values.
    pub(super) input: Schema,
    pub(super) output: Schema,
}

/// What was asked for, under which trust.
type Key = (Reference, Digest);

/// Verified things. Cheap to clone.
#[derive(Clone)]
pub struct Shelf(Arc<Inner>);

/// Where everything comes from.
enum Source {
    Supplier(Supplier),
    #[cfg(feature = "simulation")]
    Library(Library),
}

struct Inner {
    source: Source,
    sandbox: Sandbox,
    definitions: Cache<Key, Arc<Definition>>,
    catalogs: Cache<Key, Arc<Catalog>>,
    policies: Cache<Key, Arc<PolicyBundle>>,
    activations: Cache<Key, Arc<PolicyActivation>>,
    components: Cache<Key, Arc<Loaded>>,
    graphs: Cache<Sources, Arc<Resolved>>,
}

impl Shelf {
    /// An empty shelf that is filled through `supplier`.
    #[must_use]
    pub fn new(supplier: Supplier, sandbox: Sandbox) -> Self {
        Self::of(Source::Supplier(supplier), sandbox)
    }

    /// A shelf that is filled from a library, as if verified.
    #[cfg(feature = "simulation")]
    #[must_use]
    pub fn of_library(library: Library, sandbox: Sandbox) -> Self {
        Self::of(Source::Library(library), sandbox)
    }

    fn of(source: Source, sandbox: Sandbox) -> Self {
        Self(Arc::new(Inner {
            source,
            sandbox,
            definitions: Cache::new(ENTRIES),
            catalogs: Cache::new(ENTRIES),
            policies: Cache::new(ENTRIES),
            activations: Cache::new(ENTRIES),
            components: Cache::new(ENTRIES),
            graphs: Cache::new(ENTRIES),
        }))
    }

    /// Digests of what need not be fetched, the newest first, at most so many. Nothing depends on it, so a disk that fails
    /// is told of where it matters.
    pub(crate) async fn held(&self, most: usize) -> Vec<Digest> {
        match &self.0.source {
            Source::Supplier(supplier) => supplier.held(most).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "the artifacts that are kept cannot be listed");
                Vec::new()
            }),
            #[cfg(feature = "simulation")]
            Source::Library(_) => Vec::new(),
        }
    }

    pub(super) async fn definition(&self, reference: &Reference) -> Result<Arc<Definition>, Failure> {
        let fetch = self.document(ArtifactKind::Definition, reference);
        self.0.definitions.get_or_insert_async(&self.key(reference)?, fetch).await
    }

    pub(super) async fn catalog(&self, reference: &Reference) -> Result<Arc<Catalog>, Failure> {
        let fetch = self.document(ArtifactKind::Catalog, reference);
        self.0.catalogs.get_or_insert_async(&self.key(reference)?, fetch).await
    }

    pub(super) async fn policy(&self, reference: &Reference) -> Result<Arc<PolicyBundle>, Failure> {
        let fetch = async {
            let policy: Arc<PolicyBundle> = self.document(ArtifactKind::PolicyBundle, reference).await?;
            policy.check().map_err(|violations| {
                let message = format!("policy bundle {reference} is not sound: {violations}");
                failure(FailureClass::Denied, "policy.invalid", message)
            })?;
            Ok(policy)
        };
        self.0.policies.get_or_insert_async(&self.key(reference)?, fetch).await
    }

    pub(super) async fn activation(&self, reference: &Reference) -> Result<Arc<PolicyActivation>, Failure> {
        let fetch = async {
            let document: Arc<PolicyActivation> = self.document(ArtifactKind::PolicyActivation, reference).await?;
            document.check().map_err(|violations| {
                let message = format!("policy activation {reference} is not sound: {violations}");
                failure(FailureClass::Denied, "policy.invalid-activation", message)
            })?;
            Ok(document)
        };
        self.0.activations.get_or_insert_async(&self.key(reference)?, fetch).await
    }

    pub(super) async fn component(&self, reference: &Reference) -> Result<Arc<Loaded>, Failure> {
        self.0.components.get_or_insert_async(&self.key(reference)?, self.load(reference)).await
    }

    /// What these documents, which `sources` names and which are trusted now, resolve to.
    pub(super) fn graph(
        &self,
        sources: &Sources,
        definition: &Definition,
        catalog: &Catalog,
    ) -> Result<Arc<Resolved>, Failure> {
        self.0.graphs.get_or_insert_with(sources, || {
            let resolved = Resolved::new(sources.clone(), definition, catalog);
            resolved.map(Arc::new).map_err(|error| {
                let code = if matches!(error, PlanError::NotCanonical(_)) { "plan.digest" } else { "plan.inputs" };
                refused(code, &error)
            })
        })
    }

    fn key(&self, reference: &Reference) -> Result<Key, Failure> {
        let failed = |source| SupplyError::Trust { artifact: reference.to_string(), source: Arc::new(source) };
        let trust = match &self.0.source {
            Source::Supplier(supplier) => supplier.trust().map_err(|error| of_supply(&failed(error)))?.digest(),
            #[cfg(feature = "simulation")]
            Source::Library(_) => Digest::of(&[]),
        };
        Ok((reference.clone(), trust))
    }

    async fn load(&self, reference: &Reference) -> Result<Arc<Loaded>, Failure> {
        let (code, descriptor, signed) = match &self.0.source {
            Source::Supplier(supplier) => {
                let artifact = supplier.artifact(ArtifactKind::Step, reference).await.map_err(|e| of_supply(&e))?;
                let signed = artifact.descriptor.clone().and_then(|signed| serde_json::from_value(signed).ok());
                let compiled = self.0.sandbox.compile(artifact.content).await.map_err(of_load)?;
                let descriptor = self.0.sandbox.describe(&compiled).await.map_err(of_load)?;
                (Code::Compiled(compiled), descriptor, signed)
            }
            #[cfg(feature = "simulation")]
            Source::Library(library) => {
                let descriptor = library.components.get(reference).cloned();
                let descriptor = descriptor.ok_or_else(|| absent(reference))?;
                let scripted = Scripted { script: Arc::clone(&library.script), digest: reference.digest };
                (Code::Scripted(scripted), descriptor.clone(), Some(descriptor))
            }
        };
        let schema = |what: &str, schema: &serde_json::Value| {
            Schema::compile(schema).map_err(|reason| {
                failure(FailureClass::Denied, "step.schema", format!("the {what} schema of {reference} {reason}"))
            })
        };
        let (input, output) =
            (schema("input", &descriptor.input_schema)?, schema("output", &descriptor.output_schema)?);
        Ok(Arc::new(Loaded { code, descriptor, signed, input, output }))
    }

    async fn document<T: DeserializeOwned>(
        &self,
        kind: ArtifactKind,
        reference: &Reference,
    ) -> Result<Arc<T>, Failure> {
        let content = match &self.0.source {
            Source::Supplier(supplier) => {
                supplier.artifact(kind, reference).await.map_err(|error| of_supply(&error))?.content
            }
            #[cfg(feature = "simulation")]
            Source::Library(library) => {
                let document = library.documents.get(reference).ok_or_else(|| absent(reference))?;
                document.to_string().into()
            }
        };
        serde_json::from_slice(&content).map(Arc::new).map_err(|error| {
            let message = format!("{reference} is signed and is not a valid {}: {error}", kind.name());
            failure(FailureClass::Denied, "artifact.malformed", message)
        })
    }
}

#[cfg(feature = "simulation")]
fn absent(reference: &Reference) -> Failure {
    failure(FailureClass::Permanent, "supply.absent", format!("the library has no {reference}"))
}

/// A registry that does not deliver is worth another try; everything else is refused for good.
fn of_supply(error: &SupplyError) -> Failure {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    match error {
        SupplyError::Unavailable { .. } => failure(FailureClass::Transient, "supply.unavailable", text),
        SupplyError::Unsigned { .. } => failure(FailureClass::Denied, "supply.unsigned", text),
        SupplyError::Untrusted { .. } => failure(FailureClass::Denied, "supply.untrusted", text),
        SupplyError::Malformed { .. } => failure(FailureClass::Denied, "supply.malformed", text),
        SupplyError::Trust { .. } => failure(FailureClass::Denied, "supply.no-trust-policy", text),
        SupplyError::Store { .. } | SupplyError::LocalFile { .. } | SupplyError::Signing { .. } => {
            failure(FailureClass::Permanent, "supply.store", text)
        }
    }
}

pub(super) fn of_load(error: LoadError) -> Failure {
    let (class, code) = match &error {
        LoadError::NotAComponent { .. } => (FailureClass::Denied, "step.not-a-component"),
        LoadError::Refused { .. } => (FailureClass::Denied, "step.refused"),
        LoadError::TooLarge { .. } => (FailureClass::Denied, "step.too-large"),
        LoadError::TooSlow { .. } => (FailureClass::Transient, "step.not-compiled"),
    };
    failure(class, code, error.to_string())
}
