//! The one way to an artifact's content: store or registry, signature, hash, content.

use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use fettle_model::{digest::Digest, reference::Reference};
use futures::{
    FutureExt,
    future::{Shared, WeakShared},
};
use serde_json::Value;

use crate::{
    error::{Defect, Distrust, Outage, SupplyError},
    key::KeyId,
    kind::{ArtifactKind, CONFIG_LIMIT, DESCRIPTOR_MEMBER, MANIFEST_LIMIT},
    manifest::{Descriptor, Manifest},
    registry::{Fault, RegistryClient, check_canonical},
    signature::Evidence,
    store::{ContentStore, StoreError},
    trust::TrustPolicy,
};

/// A verified artifact: the bytes here are the bytes that were hashed and signed for.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// What was asked for.
    pub reference: Reference,
    /// The one layer: a component, or a document in canonical JSON.
    pub content: Bytes,
    /// What a step's component says of itself, if its author pushed that.
    pub descriptor: Option<Value>,
    /// Whose signature sufficed.
    pub signer: KeyId,
}

type Fetch = Pin<Box<dyn Future<Output = Result<Artifact, SupplyError>> + Send>>;
type Request = (ArtifactKind, Reference);

/// Artifacts for use: verified, from the store where possible. Cheap to clone.
#[derive(Clone)]
pub struct Supplier {
    shared: Arc<Inner>,
    running: Arc<Mutex<HashMap<Request, WeakShared<Fetch>>>>,
}

struct Inner {
    store: ContentStore,
    registry: RegistryClient,
    trust: TrustPolicy,
}

impl Supplier {
    /// Puts one together.
    #[must_use]
    pub fn new(store: ContentStore, registry: RegistryClient, trust: TrustPolicy) -> Self {
        Self { shared: Arc::new(Inner { store, registry, trust }), running: Arc::default() }
    }

    /// The client it fetches with.
    #[must_use]
    pub fn registry(&self) -> &RegistryClient {
        &self.shared.registry
    }

    /// The store it keeps artifacts in.
    #[must_use]
    pub fn store(&self) -> &ContentStore {
        &self.shared.store
    }

    /// A verified artifact. What was verified once is verified again from the store, without a
    /// registry. Requests for the same artifact at the same time are one fetch.
    ///
    /// # Errors
    /// One of the four verdicts, or a failure of the store.
    pub async fn artifact(&self, kind: ArtifactKind, reference: &Reference) -> Result<Artifact, SupplyError> {
        self.fetch(kind, reference).await
    }

    fn fetch(&self, kind: ArtifactKind, reference: &Reference) -> Shared<Fetch> {
        let key = (kind, reference.clone());
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        // A fetch that everybody gave up on is gone, and one that ended is not joined: the store
        // answers now, or another try is due.
        if let Some(fetch) = running.get(&key).and_then(WeakShared::upgrade)
            && fetch.peek().is_none()
        {
            return fetch;
        }
        running.retain(|_, fetch| fetch.upgrade().is_some());
        let inner = Arc::clone(&self.shared);
        let reference = reference.clone();
        let work: Fetch = Box::pin(async move { inner.artifact(kind, reference).await });
        let fetch = work.shared();
        if let Some(weak) = fetch.downgrade() {
            running.insert(key, weak);
        }
        fetch
    }
}

impl Inner {
    async fn artifact(&self, kind: ArtifactKind, reference: Reference) -> Result<Artifact, SupplyError> {
        let stored = |source| SupplyError::Store { artifact: reference.to_string(), source };
        let malformed = |reason| SupplyError::Malformed { artifact: reference.to_string(), reason };
        // Kept only at the end, when everything has been checked.
        let mut fresh = Vec::new();
        let raw = match self.store.read(reference.digest, MANIFEST_LIMIT).await.map_err(stored)? {
            Some(content) => content,
            None => {
                let content = self.registry.fetch_manifest(&reference, MANIFEST_LIMIT).await?.content;
                fresh.push(content.clone());
                content
            }
        };
        let (signer, signatures) = self.verify(kind, &reference).await?;
        let manifest = Manifest::parse(&raw).map_err(malformed)?;
        let layer = manifest.layer_of(kind).map_err(malformed)?;
        let content = self.part(&reference, "layer", layer, kind.layer_limit(), &mut fresh).await?;
        let descriptor = match kind {
            ArtifactKind::Step => {
                let config = &manifest.config;
                let config = self.part(&reference, "configuration", config, CONFIG_LIMIT, &mut fresh).await?;
                read_config(&config, &layer.digest).map_err(malformed)?
            }
            ArtifactKind::Catalog | ArtifactKind::Definition | ArtifactKind::PolicyBundle => {
                check_canonical(&content).map_err(malformed)?;
                None
            }
        };
        for content in fresh {
            self.store.write(content).await.map_err(stored)?;
        }
        if let Some(signatures) = signatures {
            self.store.write_signatures(reference.digest, &signatures).await.map_err(stored)?;
        }
        Ok(Artifact { reference, content, descriptor, signer })
    }

    /// Finds a signature that suffices, first among those kept. Those that come from the registry are
    /// returned to be kept.
    async fn verify(
        &self,
        kind: ArtifactKind,
        reference: &Reference,
    ) -> Result<(KeyId, Option<Vec<Evidence>>), SupplyError> {
        let stored = |source| SupplyError::Store { artifact: reference.to_string(), source };
        let kept = self.store.signatures(reference.digest).await.map_err(stored)?;
        let verdict = self.trust.verify(kind, reference, &kept);
        match &verdict {
            Ok(signer) => return Ok((*signer, None)),
            // No signature can help.
            Err(SupplyError::Untrusted { reason: Distrust::KindNotTrusted(_), .. }) => {
                return verdict.map(|key| (key, None));
            }
            Err(_) => {}
        }
        match (self.registry.fetch_signatures(reference).await, verdict) {
            (Ok(fresh), _) => Ok((self.trust.verify(kind, reference, &fresh)?, Some(fresh))),
            // Newer signatures may exist, so this is no verdict on the signers.
            (Err(SupplyError::Unavailable { artifact, source, .. }), Err(SupplyError::Untrusted { reason, .. })) => {
                let reason = Outage::NoFreshSignatures(reason.to_string());
                Err(SupplyError::Unavailable { artifact, reason, source })
            }
            (Err(error), _) => Err(error),
        }
    }

    async fn part(
        &self,
        reference: &Reference,
        what: &str,
        part: &Descriptor,
        limit: u64,
        fresh: &mut Vec<Bytes>,
    ) -> Result<Bytes, SupplyError> {
        let stored = |source: StoreError| SupplyError::Store { artifact: reference.to_string(), source };
        let kept = self.store.read(part.digest, limit).await.map_err(stored)?;
        let content = match kept {
            Some(content) => content,
            None => {
                let deadline = self.registry.options().component_timeout;
                let fetched = self.registry.fetch_part(&reference.repository, what, part, deadline).await;
                let content = fetched.map_err(|fault: Fault| fault.of(reference))?;
                fresh.push(content.clone());
                content
            }
        };
        let (expected, actual) = (part.size, content.len() as u64);
        if expected == actual {
            return Ok(content);
        }
        let reason = Defect::Size { what: what.to_owned(), expected, actual };
        Err(SupplyError::Malformed { artifact: reference.to_string(), reason })
    }
}

/// Checks a step's configuration and takes the descriptor out of it.
fn read_config(content: &[u8], layer: &Digest) -> Result<Option<Value>, Defect> {
    let mut config: serde_json::Map<String, Value> =
        serde_json::from_slice(content).map_err(|error| Defect::Config(format!("cannot be read: {error}")))?;
    if config.get("architecture").and_then(Value::as_str) != Some("wasm") {
        return Err(Defect::Config("is not for the architecture `wasm`".to_owned()));
    }
    let layers = config.get("layerDigests").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if layers != [Value::String(layer.to_string())] {
        return Err(Defect::Config(format!("does not name the layer {layer} as its only one")));
    }
    Ok(config.remove(DESCRIPTOR_MEMBER))
}
