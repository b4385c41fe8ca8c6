//! Other tools read what is written here, and what they write is read here.
//!
//! Debian builds skopeo without verifying and signing ("sigstore disabled"), so skopeo shows that the
//! layout is right in both directions, and openssl that the signatures and keys are.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

use std::{fs, path::Path, process::Command};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use fettle_supply::{
    ArtifactKind, ContentStore, PublicKey, RegistryClient, RegistryOptions, SigningKey, Supplier, TrustPolicy,
    testing::TestRegistry,
};
use serde_json::{Value, json};

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {error}");
}

fn skopeo_copy(home: &Path, from: &str, to: &str) {
    let registries = home.join("registries.d");
    fs::create_dir_all(&registries).unwrap();
    fs::write(registries.join("all.yaml"), "default-docker: { use-sigstore-attachments: true }\n").unwrap();
    let policy = home.join("policy.json");
    fs::write(&policy, json!({ "default": [{ "type": "insecureAcceptAnything" }] }).to_string()).unwrap();
    let settings = ["--policy", policy.to_str().unwrap(), "--registries.d", registries.to_str().unwrap()];
    let copy = ["copy", "--src-tls-verify=false", "--dest-tls-verify=false", "--preserve-digests", from, to];
    run("skopeo", &[&settings[..], &copy[..]].concat());
}

/// Payload and signature of each file that skopeo made of a signature.
fn signatures_in(directory: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    for index in 1.. {
        let Ok(content) = fs::read(directory.join(format!("signature-{index}"))) else { break };
        let json = content.strip_prefix(b"\0sigstore-json\n").unwrap();
        let value: Value = serde_json::from_slice(json).unwrap();
        let annotation = value["annotations"]["dev.cosignproject.cosign/signature"].as_str().unwrap();
        found
            .push((STANDARD.decode(value["payload"].as_str().unwrap()).unwrap(), STANDARD.decode(annotation).unwrap()));
    }
    found
}

#[tokio::test]
async fn signatures_travel_through_skopeo_and_verify_with_openssl() {
    let registry = TestRegistry::start();
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let client = RegistryClient::new(RegistryOptions::default()).unwrap();
    let keys = [SigningKey::generate().unwrap(), SigningKey::generate().unwrap()];
    let repository = registry.repository("definitions/stage");
    let reference = client.push(ArtifactKind::Definition, &repository, &b"{}"[..], None).await.unwrap();
    for key in &keys {
        client.sign(&reference, key).await.unwrap();
    }

    skopeo_copy(home.path(), &format!("docker://{reference}"), &format!("dir:{}", path("copy")));
    let signatures = signatures_in(&home.path().join("copy"));
    assert_eq!(signatures.len(), keys.len());
    for (key, (payload, signature)) in keys.iter().zip(signatures) {
        fs::write(path("key"), key.public().to_pem()).unwrap();
        fs::write(path("payload"), payload).unwrap();
        fs::write(path("signature"), signature).unwrap();
        let (key, signature) = (path("key"), path("signature"));
        run("openssl", &["dgst", "-sha256", "-verify", &key, "-signature", &signature, &path("payload")]);
    }

    let mirror = registry.repository("mirror/stage");
    skopeo_copy(home.path(), &format!("dir:{}", path("copy")), &format!("docker://{mirror}:v1"));
    let mirrored = mirror.at(reference.digest);
    let third = SigningKey::generate().unwrap();
    client.sign(&mirrored, &third).await.unwrap();
    assert_eq!(client.fetch_signatures(&mirrored).await.unwrap().len(), 3);
    for key in keys.iter().chain([&third]) {
        let store = tempfile::tempdir().unwrap();
        let trust = TrustPolicy::any_of([("key".to_owned(), key.public().clone())]).unwrap();
        let supplier = Supplier::new(ContentStore::open(store.path()).unwrap(), client.clone(), trust);
        let artifact = supplier.artifact(ArtifactKind::Definition, &mirrored).await.unwrap();
        assert_eq!(artifact.signers, [fettle_supply::Signer::Key(key.public().id())]);
    }
}

#[test]
fn a_key_and_a_signature_of_openssl_are_taken() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let (private, public) = (path("private"), path("public"));
    run("openssl", &["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", &private]);
    run("openssl", &["pkey", "-in", &private, "-pubout", "-out", &public]);
    fs::write(path("message"), b"message").unwrap();
    run("openssl", &["dgst", "-sha256", "-sign", &private, "-out", &path("signature"), &path("message")]);
    let key = SigningKey::load(private.as_ref(), b"").unwrap();
    let theirs = PublicKey::from_pem(&fs::read_to_string(&public).unwrap()).unwrap();
    assert_eq!(key.public(), &theirs);
    assert_eq!(theirs.to_pem(), fs::read_to_string(&public).unwrap());
    assert!(theirs.verifies(b"message", &fs::read(path("signature")).unwrap()));
}
