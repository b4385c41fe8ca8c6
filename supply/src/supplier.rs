//! The one way to an artifact's content: store or registry, signature, hash, content.
//!
//! Between verifying and using there is no gap. Each part of an artifact is one buffer: the bytes that
//! came over the network or out of a file are hashed where they lie in memory, and that same buffer is
//! [`Artifact::content`], which the host compiles. Nothing is read a second time, neither from the
//! registry nor from the store; what happens to a file meanwhile changes nothing.

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
use quick_cache::sync::Cache;
use serde_json::Value;

use crate::{
    attestation::{Attestation, AttestationEvidence},
    error::{Defect, Distrust, Outage, SupplyError},
    kind::{ArtifactKind, CONFIG_LIMIT, DESCRIPTOR_MEMBER, MANIFEST_LIMIT},
    manifest::{Descriptor, Manifest},
    mutation::{Protection, off},
    registry::{Fault, RegistryClient, check_canonical},
    signature::{Evidence, Rejection, Signer},
    store::{ContentStore, StoreError},
    trust::{Accepted, Activation, Chain, Link, RotationError, Seen, Trust, TrustError, TrustSource},
};

/// Verdicts that are kept.
const VERDICTS: usize = 1024;

/// A verified artifact: the bytes here are the bytes that were hashed and signed for.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// What was asked for.
    pub reference: Reference,
    /// The one layer: a component, or a document in canonical JSON.
    pub content: Bytes,
    /// What a step's component says of itself, if its author pushed that.
    pub descriptor: Option<Value>,
    /// Whose signatures counted, one per rule that was met.
    pub signers: Vec<Signer>,
    /// What each signature turned out to be.
    pub chain: Chain,
    /// The digest of the trust policy that let it through.
    pub policy: Digest,
}

type Fetch = Pin<Box<dyn Future<Output = Result<Artifact, SupplyError>> + Send>>;
/// With the digest of what is trusted: a fetch that began under another policy is not joined.
type Request = (ArtifactKind, Reference, Digest);

/// Artifacts for use: verified, from the store where possible. Cheap to clone.
#[derive(Clone)]
pub struct Supplier {
    shared: Arc<Inner>,
    trust: TrustSource,
    running: Arc<Mutex<HashMap<Request, WeakShared<Fetch>>>>,
}

struct Inner {
    store: ContentStore,
    registry: RegistryClient,
    verdicts: Cache<VerdictKey, Arc<Accepted>>,
}

/// What a verdict depends on. Only good ones are kept: a bad one may be mended by a new signature.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct VerdictKey {
    manifest: Digest,
    kind: ArtifactKind,
    policy: Digest,
    root: Option<Digest>,
}

impl VerdictKey {
    fn new(manifest: Digest, kind: ArtifactKind, trust: &Trust) -> Self {
        let policy = if off(Protection::VerdictNamesPolicy) { manifest } else { trust.policy().digest() };
        Self { manifest, kind, policy, root: trust.root().map(crate::signature::TrustedRoot::digest) }
    }
}

impl Supplier {
    /// Puts one together.
    #[must_use]
    pub fn new(store: ContentStore, registry: RegistryClient, trust: impl Into<TrustSource>) -> Self {
        let shared = Inner { store, registry, verdicts: Cache::new(VERDICTS) };
        Self { shared: Arc::new(shared), trust: trust.into(), running: Arc::default() }
    }

    /// The same, with the same store and the verdicts it knows, trusting others.
    #[must_use]
    pub fn trusting(&self, trust: impl Into<TrustSource>) -> Self {
        Self { shared: Arc::clone(&self.shared), trust: trust.into(), running: Arc::default() }
    }

    /// Digests of what is kept and need not be fetched, the newest first, at most so many.
    ///
    /// # Errors
    /// When the disk fails.
    pub async fn held(&self, most: usize) -> Result<Vec<Digest>, StoreError> {
        self.shared.store.newest(most).await
    }

    /// What is trusted now. Whoever keeps what came out of an artifact keeps it for this
    /// [`Trust::digest`] only.
    ///
    /// # Errors
    /// When a file cannot be read, or says what it must not.
    pub fn trust(&self) -> Result<Arc<Trust>, TrustError> {
        self.trust.current()
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
    /// One of the four verdicts, or a failure of the store or of the trust policy.
    pub async fn artifact(&self, kind: ArtifactKind, reference: &Reference) -> Result<Artifact, SupplyError> {
        let failed = |source| SupplyError::Trust { artifact: reference.to_string(), source: Arc::new(source) };
        let trust = self.trust().map_err(failed)?;
        self.fetch(kind, reference, trust).await
    }

    /// Every statement that is attached to an artifact, each with what it states, or why it is worth
    /// nothing: somebody whom the trust policy names for the kind has to have signed it, about exactly
    /// this manifest. It is read from the registry each time.
    ///
    /// # Errors
    /// `Unavailable`; `Malformed` when the list cannot be read; a failure of the trust policy.
    pub async fn attestations(
        &self,
        kind: ArtifactKind,
        reference: &Reference,
    ) -> Result<Vec<(AttestationEvidence, Result<Attestation, Rejection>)>, SupplyError> {
        let failed = |source| SupplyError::Trust { artifact: reference.to_string(), source: Arc::new(source) };
        let trust = self.trust().map_err(failed)?;
        let attached = self.shared.registry.fetch_attestations(reference).await?;
        let stated = |evidence: &AttestationEvidence| trust.policy().stated(kind, reference, evidence, trust.root());
        Ok(attached.into_iter().map(|evidence| (evidence.clone(), stated(&evidence))).collect())
    }

    /// Puts a newer trust policy in force: one that is signed as the current one demands of the kind
    /// `trust_policy`, and has a higher revision. Every process that uses the same files sees it at once.
    ///
    /// # Errors
    /// When it is not accepted, or not newer, or this supplier's trust is not in files.
    pub async fn activate(&self, reference: &Reference) -> Result<Activation, RotationError> {
        let TrustSource::Files(files) = &self.trust else { return Err(RotationError::NoDirectory) };
        let link = self.shared.link(reference).await.map_err(|error| RotationError::Fetch(Box::new(error)))?;
        let files = Arc::clone(files);
        let work = move || files.activate(&link);
        tokio::task::spawn_blocking(work).await.map_err(|_| RotationError::Store(StoreError::Stopped))?
    }

    fn fetch(&self, kind: ArtifactKind, reference: &Reference, trust: Arc<Trust>) -> Shared<Fetch> {
        let key = (kind, reference.clone(), trust.digest());
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
        let work: Fetch = Box::pin(async move { inner.artifact(kind, reference, &trust).await });
        let fetch = work.shared();
        if let Some(weak) = fetch.downgrade() {
            running.insert(key, weak);
        }
        fetch
    }
}

impl Inner {
    async fn artifact(&self, kind: ArtifactKind, reference: Reference, trust: &Trust) -> Result<Artifact, SupplyError> {
        let stored = |source| SupplyError::Store { artifact: reference.to_string(), source };
        let malformed = |reason| SupplyError::Malformed { artifact: reference.to_string(), reason };
        trust.policy().refuse_denied(&reference, reference.digest)?;
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
        let (accepted, signatures) = self.verify(kind, &reference, trust).await?;
        let manifest = Manifest::parse(&raw).map_err(malformed)?;
        let layer = manifest.layer_of(kind).map_err(malformed)?;
        for part in [layer, &manifest.config] {
            trust.policy().refuse_denied(&reference, part.digest)?;
        }
        let content = self.part(&reference, "layer", layer, kind.layer_limit(), &mut fresh).await?;
        let descriptor = match kind {
            ArtifactKind::Step => {
                let config = &manifest.config;
                let config = self.part(&reference, "configuration", config, CONFIG_LIMIT, &mut fresh).await?;
                read_config(&config, &layer.digest).map_err(malformed)?
            }
            ArtifactKind::Catalog
            | ArtifactKind::Definition
            | ArtifactKind::PolicyBundle
            | ArtifactKind::PolicyActivation
            | ArtifactKind::TrustPolicy => {
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
        let (signers, chain) = (accepted.signers.clone(), accepted.chain.clone());
        Ok(Artifact { reference, content, descriptor, signers, chain, policy: trust.policy().digest() })
    }

    /// A trust policy with its manifest and its signatures, none of it verified yet.
    async fn link(&self, reference: &Reference) -> Result<Link, SupplyError> {
        let malformed = |reason| SupplyError::Malformed { artifact: reference.to_string(), reason };
        let kind = ArtifactKind::TrustPolicy;
        let manifest = self.registry.fetch_manifest(reference, MANIFEST_LIMIT).await?.content;
        let parsed = Manifest::parse(&manifest).map_err(malformed)?;
        let layer = parsed.layer_of(kind).map_err(malformed)?;
        let policy = self.part(reference, "layer", layer, kind.layer_limit(), &mut Vec::new()).await?;
        let signatures = self.registry.fetch_signatures(reference).await?;
        Ok(Link::new(reference.clone(), &manifest, &policy, signatures))
    }

    /// Decides whether signatures suffice: as decided before for the same policy and root, else by those
    /// kept, else by those of the registry, which are returned to be kept. The versions that the signers
    /// state are remembered where the policy asks for that.
    async fn verify(
        &self,
        kind: ArtifactKind,
        reference: &Reference,
        trust: &Trust,
    ) -> Result<(Arc<Accepted>, Option<Vec<Evidence>>), SupplyError> {
        let stored = |source| SupplyError::Store { artifact: reference.to_string(), source };
        let key = VerdictKey::new(reference.digest, kind, trust);
        loop {
            let seen = self.store.seen(kind).await.map_err(stored)?;
            let known = self.verdicts.get(&key).filter(|accepted| !accepted.is_outdated(&seen));
            let (accepted, fresh) = match known {
                Some(accepted) => (accepted, None),
                None => self.judge(kind, reference, trust, &seen).await?,
            };
            let versions = accepted.versions.clone();
            // False only when a newer version was accepted since `seen` was read.
            if versions.is_empty()
                || off(Protection::NoRollBack)
                || self.store.accept(kind, versions).await.map_err(stored)?
            {
                self.verdicts.insert(key, Arc::clone(&accepted));
                return Ok((accepted, fresh));
            }
        }
    }

    async fn judge(
        &self,
        kind: ArtifactKind,
        reference: &Reference,
        trust: &Trust,
        seen: &Seen,
    ) -> Result<(Arc<Accepted>, Option<Vec<Evidence>>), SupplyError> {
        let stored = |source| SupplyError::Store { artifact: reference.to_string(), source };
        let kept = self.store.signatures(reference.digest).await.map_err(stored)?;
        let verify = |signatures: &[Evidence]| trust.policy().verify(kind, reference, signatures, trust.root(), seen);
        let refusal = match verify(&kept) {
            Ok(accepted) => return Ok((Arc::new(accepted), None)),
            Err(refusal) => refusal,
        };
        if let SupplyError::Untrusted { reason: Distrust::KindNotTrusted(_) | Distrust::Denied { .. }, .. } = refusal {
            // No signature can help.
            return Err(refusal);
        }
        match (self.registry.fetch_signatures(reference).await, refusal) {
            (Ok(fresh), _) => Ok((Arc::new(verify(&fresh)?), Some(fresh))),
            (Err(SupplyError::Unavailable { .. }), refusal) if off(Protection::OutageIsNoAnswer) => Err(refusal),
            // Newer signatures may exist, so this is no verdict on the signers.
            (Err(SupplyError::Unavailable { artifact, source, .. }), SupplyError::Untrusted { reason, .. }) => {
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
