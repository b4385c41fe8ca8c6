//! A registry with signed artifacts in it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use fettle_host::sandbox::{Limits, Sandbox};
use fettle_model::{
    activation::PolicyActivation, canonical, catalog::Catalog, definition::Definition, document, policy::PolicyBundle,
    reference::Reference,
};
use fettle_supply::{ArtifactKind, RegistryClient, RegistryOptions, SigningKey, testing::TestRegistry};
use serde_json::Value;

/// A real registry process, a signing key, and what was published.
pub struct Supply {
    /// The registry.
    pub registry: TestRegistry,
    /// The key that everything is signed with.
    pub key: SigningKey,
    /// Publishes.
    pub client: RegistryClient,
    /// Trust policy file with the key.
    pub trust: PathBuf,
    /// The published steps.
    pub catalog: Catalog,
    directory: tempfile::TempDir,
    sandbox: Sandbox,
}

/// Reads a component that `cargo xtask steps` has built.
#[must_use]
pub fn component(name: &str) -> Vec<u8> {
    let file = format!("fettle_step_{}.wasm", name.replace('-', "_"));
    let path = components().join(file);
    std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{} is missing ({error}): run `cargo xtask steps` first", path.display()))
}

/// Where `cargo xtask steps` puts components.
#[must_use]
pub fn components() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
    target.join("wasm32-wasip2/step")
}

impl Supply {
    /// A registry in which these steps are published and signed.
    pub async fn with(steps: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let key = SigningKey::generate().unwrap();
        let trust = directory.path().join("trust.json");
        write_trust(&trust, &key);
        let mut supply = Self {
            registry: TestRegistry::start(),
            key,
            client: RegistryClient::new(RegistryOptions::default()).unwrap(),
            trust,
            catalog: Catalog::default(),
            directory,
            sandbox: Sandbox::new(2, Limits::default()).unwrap(),
        };
        for name in steps {
            supply.publish_step(name).await;
        }
        supply
    }

    /// `host:port` of the registry.
    #[must_use]
    pub fn address(&self) -> &str {
        self.registry.address()
    }

    /// Somewhere to put files.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Publishes and signs one step, and adds it to the catalog.
    pub async fn publish_step(&mut self, name: &str) {
        let reference = self.push_step(name).await;
        self.client.sign(&reference, &self.key).await.unwrap();
        let kind = self.describe(name).await["kind"].as_str().unwrap().parse().unwrap();
        self.catalog.steps.insert(kind, reference);
    }

    /// Pushes one step without a signature.
    pub async fn push_step(&self, name: &str) -> Reference {
        let descriptor = self.describe(name).await;
        let repository = self.registry.repository(&format!("steps/{name}"));
        self.client.push(ArtifactKind::Step, &repository, component(name), Some(descriptor)).await.unwrap()
    }

    async fn describe(&self, name: &str) -> Value {
        let compiled = self.sandbox.compile(component(name).into()).await.unwrap();
        serde_json::to_value(self.sandbox.describe(&compiled).await.unwrap()).unwrap()
    }

    /// Publishes and signs a document.
    pub async fn publish_document<T: serde::Serialize>(
        &self,
        kind: ArtifactKind,
        path: &str,
        document: &T,
    ) -> Reference {
        let content = canonical::to_bytes(document).unwrap();
        let reference = self.client.push(kind, &self.registry.repository(path), content, None).await.unwrap();
        self.client.sign(&reference, &self.key).await.unwrap();
        reference
    }

    /// Publishes a definition, the catalog and a policy bundle; answers what the plane is told.
    pub async fn publish(&self, definition: &str, policy: &str) -> Value {
        let definition: Definition = document::read(definition).unwrap();
        let policy: PolicyBundle = document::read(policy).unwrap();
        serde_json::json!({
            "definition": self.publish_document(ArtifactKind::Definition, "admin/definition", &definition).await,
            "catalog": self.publish_document(ArtifactKind::Catalog, "admin/catalog", &self.catalog).await,
            "policy": self.publish_document(ArtifactKind::PolicyBundle, "admin/policy", &policy).await,
        })
    }

    /// Publishes and signs which policy bundles count.
    pub async fn publish_activation(&self, activation: &PolicyActivation) -> Reference {
        self.publish_document(ArtifactKind::PolicyActivation, "admin/activation", activation).await
    }

    /// Pushes files as an artifact with one layer each.
    pub async fn push_files(&self, path: &str, files: &BTreeMap<&str, Vec<u8>>) -> Reference {
        let mut written = Vec::new();
        for (title, content) in files {
            let file = self.directory.path().join(format!("layer-{}", title.replace('/', "-")));
            std::fs::write(&file, content).unwrap();
            written.push(((*title).to_owned(), file));
        }
        self.client.push_files(&self.registry.repository(path), &written).await.unwrap()
    }
}

/// Writes a trust policy with this one key.
pub fn write_trust(path: &Path, key: &SigningKey) {
    let policy = fettle_supply::TrustPolicy::any_of([("test".to_owned(), key.public().clone())]).unwrap();
    std::fs::write(path, serde_json::to_vec(&policy).unwrap()).unwrap();
}
