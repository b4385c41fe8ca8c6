//! What an author pushes and signs, a host gets, verified, and gets again without the registry.

use fettle_model::{canonical, digest::Digest};
use fettle_supply::{
    ArtifactKind, ContentStore, RegistryClient, RegistryOptions, SigningKey, Supplier, TrustPolicy,
    testing::TestRegistry,
};
use serde_json::json;

fn supplier(directory: &std::path::Path, key: &SigningKey) -> Supplier {
    let store = ContentStore::open(directory).unwrap();
    let registry = RegistryClient::new(RegistryOptions::default()).unwrap();
    let trust = TrustPolicy::any_of([("team".to_owned(), key.public().clone())]).unwrap();
    Supplier::new(store, registry, trust)
}

#[tokio::test]
async fn every_kind_is_pushed_signed_fetched_and_kept() {
    let mut registry = TestRegistry::start();
    let client = RegistryClient::new(RegistryOptions::default()).unwrap();
    let key = SigningKey::generate().unwrap();
    let home = tempfile::tempdir().unwrap();
    let mut references = Vec::new();
    for kind in ArtifactKind::ALL {
        let (content, descriptor) = match kind {
            ArtifactKind::Step => (b"\0asm component".to_vec(), Some(json!({ "kind": "file.render@v1" }))),
            ArtifactKind::Catalog
            | ArtifactKind::Definition
            | ArtifactKind::PolicyBundle
            | ArtifactKind::PolicyActivation
            | ArtifactKind::TrustPolicy => {
                (canonical::to_bytes(&json!({ "kind": kind, "revision": 7 })).unwrap(), None)
            }
        };
        let repository = registry.repository(&format!("kinds/{}", kind.name()));
        let reference = client.push(kind, &repository, content.clone(), descriptor.clone()).await.unwrap();
        client.sign(&reference, &key).await.unwrap();
        references.push((kind, reference, content, descriptor));
    }
    for online in [true, false] {
        if !online {
            registry.stop();
        }
        let supplier = supplier(home.path(), &key);
        for (kind, reference, content, descriptor) in &references {
            let artifact = supplier.artifact(*kind, reference).await.unwrap();
            assert_eq!(artifact.content, content);
            assert_eq!(&artifact.descriptor, descriptor);
            assert_eq!(&artifact.reference, reference);
            assert_eq!(artifact.signers, [fettle_supply::Signer::Key(key.public().id())]);
            assert!(home.path().join("blobs/sha256").join(Digest::of(content).hex()).is_file());
        }
    }
}
