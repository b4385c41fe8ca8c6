//! A registry behind a proxy that can misbehave, an author's key, and a host's supplier.

pub(crate) mod lab;
pub(crate) mod tools;

use std::time::Duration;

use fettle_model::{
    digest::Digest,
    reference::{Reference, Repository},
};
use fettle_supply::{
    Artifact, ArtifactKind, ContentStore, RegistryClient, RegistryOptions, SigningKey, Supplier, SupplyError,
    TrustPolicy, Verdict,
    testing::{FaultyProxy, Misbehaviour, TestRegistry},
};
use serde_json::json;

pub(crate) const WASM: &[u8] = b"\0asm\x0d\0\x01\0 a component, as far as supply cares";

pub(crate) struct World {
    pub(crate) registry: TestRegistry,
    pub(crate) proxy: FaultyProxy,
    pub(crate) client: RegistryClient,
    pub(crate) key: SigningKey,
    pub(crate) home: tempfile::TempDir,
}

pub(crate) fn options() -> RegistryOptions {
    RegistryOptions {
        connect_timeout: Duration::from_secs(2),
        idle_timeout: Duration::from_millis(400),
        document_timeout: Duration::from_secs(2),
        component_timeout: Duration::from_secs(2),
        ..RegistryOptions::default()
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        let registry = TestRegistry::start();
        let proxy = FaultyProxy::start(registry.address()).await;
        let client = RegistryClient::new(options()).unwrap();
        let (key, home) = (SigningKey::generate().unwrap(), tempfile::tempdir().unwrap());
        Self { registry, proxy, client, key, home }
    }

    /// As the host sees it: through the proxy.
    pub(crate) fn repository(&self) -> Repository {
        self.proxy.repository("steps/render")
    }

    /// As the author sees it.
    pub(crate) fn direct(&self) -> Repository {
        self.registry.repository("steps/render")
    }

    /// Pushes a step, unsigned, and returns where the host finds it.
    pub(crate) async fn push(&self) -> Reference {
        let descriptor = json!({ "kind": "file.render@v1" });
        let pushed = self.client.push(ArtifactKind::Step, &self.direct(), WASM, Some(descriptor)).await.unwrap();
        self.repository().at(pushed.digest)
    }

    pub(crate) async fn sign(&self, digest: Digest) {
        self.client.sign(&self.direct().at(digest), &self.key).await.unwrap();
    }

    pub(crate) async fn publish(&self) -> Reference {
        let reference = self.push().await;
        self.sign(reference.digest).await;
        reference
    }

    /// A manifest that the trusted key signed and the registry serves, whatever it says.
    pub(crate) async fn serve_signed(&self, manifest: Vec<u8>) -> Reference {
        let digest = Digest::of(&manifest);
        self.sign(digest).await;
        let media_type = "application/vnd.oci.image.manifest.v1+json".to_owned();
        self.proxy.misbehave(&format!("manifests/{digest}"), Misbehaviour::Answer(media_type, manifest));
        self.repository().at(digest)
    }

    /// The host's supplier, with its store in the same place every time.
    pub(crate) fn supplier(&self) -> Supplier {
        self.supplier_trusting(&self.key)
    }

    pub(crate) fn supplier_trusting(&self, key: &SigningKey) -> Supplier {
        let trust = TrustPolicy::any_of([("team".to_owned(), key.public().clone())]).unwrap();
        Supplier::new(ContentStore::open(self.home.path()).unwrap(), self.client.clone(), trust)
    }

    pub(crate) async fn get(&self, reference: &Reference) -> Result<Artifact, SupplyError> {
        self.supplier().artifact(ArtifactKind::Step, reference).await
    }

    pub(crate) fn stored(&self, digest: &Digest) -> std::path::PathBuf {
        self.home.path().join("blobs/sha256").join(digest.hex())
    }
}

/// The error's verdict, after a look at whether it is a whole sentence about this artifact.
pub(crate) fn verdict(reference: &Reference, result: Result<Artifact, SupplyError>) -> Verdict {
    let error = result.map(|artifact| artifact.reference).unwrap_err();
    let verdict = error.verdict().unwrap_or_else(|| panic!("{error} is no verdict"));
    let text = error.to_string();
    assert!(text.starts_with(verdict.name()), "{text}");
    assert!(text.contains(&reference.to_string()), "{text} names no artifact");
    assert!(text.contains(';'), "{text} names no fix");
    verdict
}
