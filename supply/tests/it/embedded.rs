//! The registry that `fettle dev` embeds takes and gives everything, too.

use std::{fs::File, sync::Arc};

use container_registry::{
    ContainerRegistry,
    auth::{Anonymous, Permissions},
};
use fettle_supply::{
    ArtifactKind, BlobDownload, ContentStore, Manifest, RegistryClient, RegistryOptions, SigningKey, Supplier,
    TrustPolicy,
};

#[tokio::test]
async fn the_embedded_registry_serves_the_main_path() {
    let home = tempfile::tempdir().unwrap();
    let directory = |name: &str| {
        let path = home.path().join(name);
        std::fs::create_dir(&path).unwrap();
        path
    };
    let access = Arc::new(Anonymous::new(Permissions::ReadWrite, Permissions::ReadWrite));
    let registry = ContainerRegistry::builder().storage(directory("registry")).auth_provider(access).build().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = registry.make_router().layer(axum::extract::DefaultBodyLimit::disable());
    tokio::spawn(async move { axum::serve(listener, app).await });

    let client = RegistryClient::new(RegistryOptions::default()).unwrap();
    let keys = [SigningKey::generate().unwrap(), SigningKey::generate().unwrap()];
    let repository = format!("{address}/steps/file.render").parse().unwrap();
    let reference = client.push(ArtifactKind::Step, &repository, &b"\0asm content"[..], None).await.unwrap();
    for key in &keys {
        client.sign(&reference, key).await.unwrap();
    }
    let trust = TrustPolicy::any_of([("second".to_owned(), keys[1].public().clone())]).unwrap();
    let supplier = Supplier::new(ContentStore::open(&directory("store")).unwrap(), client.clone(), trust);
    let artifact = supplier.artifact(ArtifactKind::Step, &reference).await.unwrap();
    assert_eq!(artifact.content, &b"\0asm content"[..]);

    let source = home.path().join("source");
    std::fs::write(&source, vec![7; 3 << 20]).unwrap();
    let files = client.push_files(&repository, &[("source".to_owned(), source)]).await.unwrap();
    let raw = client.fetch_manifest(&files, 1 << 20).await.unwrap();
    let layer = Manifest::parse(&raw.content).unwrap().layers.remove(0);
    for resume_from in [0, 1 << 20] {
        let path = home.path().join("destination");
        let destination = File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        let (digest, size) = (layer.digest, layer.size);
        let download = BlobDownload { repository: &repository, digest, size, destination, resume_from };
        client.download_blob(download, |_| ()).await.unwrap();
        assert!(std::fs::read(&path).unwrap() == vec![7; 3 << 20]);
    }
}
