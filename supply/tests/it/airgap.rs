//! Without any registry, from a directory: the same artifacts, the same verdicts.

use std::{collections::BTreeMap, fs, path::Path};

use crate::support::{WASM, World, options, verdict};
use fettle_model::{digest::Digest, reference::Reference};
use fettle_supply::{
    ArtifactKind, ContentStore, CopySource, CopyTarget, Layout, RegistryClient, RegistryOptions, SignatureFormat,
    SigningKey, Supplier, SupplyError, TrustPolicy, Verdict,
};
use serde_json::json;

const FORMATS: [SignatureFormat; 3] = [SignatureFormat::Cosign, SignatureFormat::Bundle, SignatureFormat::Both];

fn offline(directory: &Path) -> RegistryClient {
    RegistryClient::new(RegistryOptions { layouts: vec![directory.to_owned()], ..options() }).unwrap()
}

async fn get(
    world: &World,
    layout: &Path,
    reference: &Reference,
    key: &SigningKey,
) -> Result<fettle_supply::Artifact, SupplyError> {
    let store = tempfile::tempdir_in(world.home.path()).unwrap();
    let trust = TrustPolicy::any_of([("team".to_owned(), key.public().clone())]).unwrap();
    let supplier = Supplier::new(ContentStore::open(store.path()).unwrap(), offline(layout), trust);
    supplier.artifact(ArtifactKind::Step, reference).await
}

async fn copy(world: &World, reference: &Reference, layout: &Path) {
    let target = CopyTarget::Layout(Layout::open_or_create(layout).unwrap());
    world.client.copy(&CopySource::Registry(reference.clone()), &target).await.unwrap();
}

#[tokio::test]
async fn a_layout_gives_the_same_artifacts_and_verdicts_as_its_registry() {
    let mut world = World::new().await;
    let layout = world.home.path().join("layout");
    let stranger = SigningKey::generate().unwrap();
    let mut all = Vec::new();
    for (index, format) in FORMATS.into_iter().enumerate() {
        let content = format!("\0asm {index}").into_bytes();
        let reference = world.client.push(ArtifactKind::Step, &world.direct(), content.clone(), None).await.unwrap();
        world.client.sign_as(&reference, &world.key, format, &BTreeMap::new()).await.unwrap();
        copy(&world, &reference, &layout).await;
        all.push((reference, content));
    }
    let unsigned = world.client.push(ArtifactKind::Step, &world.direct(), &b"\0asm unsigned"[..], None).await.unwrap();
    copy(&world, &unsigned, &layout).await;
    world.registry.stop();
    for (reference, content) in &all {
        assert_eq!(get(&world, &layout, reference, &world.key).await.unwrap().content, content);
        assert_eq!(verdict(reference, get(&world, &layout, reference, &stranger).await), Verdict::Untrusted);
    }
    assert_eq!(verdict(&unsigned, get(&world, &layout, &unsigned, &world.key).await), Verdict::Unsigned);
    // What is not in it is looked for where its reference says.
    let absent = world.direct().at(Digest::of(b"absent"));
    assert_eq!(verdict(&absent, get(&world, &layout, &absent, &world.key).await), Verdict::Unavailable);
}

#[tokio::test]
async fn a_changed_or_incomplete_layout_is_malformed_or_unavailable() {
    let mut world = World::new().await;
    let layout = world.home.path().join("layout");
    let reference = world.push().await;
    let direct = world.direct().at(reference.digest);
    world.client.sign_as(&direct, &world.key, SignatureFormat::Both, &BTreeMap::new()).await.unwrap();
    copy(&world, &direct, &layout).await;
    world.registry.stop();
    let blob = |digest: &Digest| layout.join("blobs/sha256").join(digest.hex());
    for digest in [Digest::of(WASM), reference.digest] {
        let good = fs::read(blob(&digest)).unwrap();
        let mut bad = good.clone();
        bad[12] ^= 1;
        fs::write(blob(&digest), bad).unwrap();
        assert_eq!(verdict(&direct, get(&world, &layout, &direct, &world.key).await), Verdict::Malformed);
        fs::remove_file(blob(&digest)).unwrap();
        assert_eq!(verdict(&direct, get(&world, &layout, &direct, &world.key).await), Verdict::Unavailable);
        fs::write(blob(&digest), good).unwrap();
    }
    get(&world, &layout, &direct, &world.key).await.unwrap();
    fs::write(layout.join("index.json"), "{}").unwrap();
    assert_eq!(verdict(&direct, get(&world, &layout, &direct, &world.key).await), Verdict::Malformed);
    fs::remove_file(layout.join("index.json")).unwrap();
    assert_eq!(verdict(&direct, get(&world, &layout, &direct, &world.key).await), Verdict::Unavailable);
}

#[tokio::test]
async fn what_went_through_a_layout_into_another_registry_is_the_same_with_all_that_refers_to_it() {
    let mut world = World::new().await;
    let reference = world.push().await;
    let direct = world.direct().at(reference.digest);
    world.client.sign_as(&direct, &world.key, SignatureFormat::Both, &BTreeMap::new()).await.unwrap();
    let predicate = json!({ "buildDefinition": {} });
    world.client.attest(&direct, &world.key, "https://slsa.dev/provenance/v1", &predicate).await.unwrap();
    let layout = world.home.path().join("layout");
    copy(&world, &direct, &layout).await;
    copy(&world, &direct, &layout).await;
    let there = fettle_supply::testing::TestRegistry::start();
    world.registry.stop();
    let opened = Layout::open(&layout).unwrap();
    let source = CopySource::Layout(opened, reference.digest);
    let mirror = there.repository("mirror/render");
    let copied = world.client.copy(&source, &CopyTarget::Registry(mirror.clone())).await.unwrap();
    assert_eq!((copied.signatures, copied.referrers), (1, 2));
    let mirrored = mirror.at(reference.digest);
    assert_eq!(world.client.fetch_signatures(&mirrored).await.unwrap().len(), 2);
    assert_eq!(world.client.fetch_attestations(&mirrored).await.unwrap().len(), 1);
    let artifact = world.supplier().artifact(ArtifactKind::Step, &mirrored).await.unwrap();
    assert_eq!(artifact.content, WASM);
}

#[tokio::test]
async fn large_files_are_copied_and_a_directory_of_something_else_is_left_alone() {
    let world = World::new().await;
    let source = world.home.path().join("weights");
    fs::write(&source, vec![7; 5 << 20]).unwrap();
    let files = world.client.push_files(&world.direct(), &[("weights".to_owned(), source)]).await.unwrap();
    let layout = world.home.path().join("layout");
    copy(&world, &files, &layout).await;
    let digest = Digest::of(&vec![7; 5 << 20]);
    assert_eq!(fs::metadata(layout.join("blobs/sha256").join(digest.hex())).unwrap().len(), 5 << 20);
    let other = world.home.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("precious"), "data").unwrap();
    assert!(Layout::open_or_create(&other).is_err());
    assert!(Layout::open(&other).is_err());
    assert_eq!(fs::read_dir(&other).unwrap().count(), 1);
}
