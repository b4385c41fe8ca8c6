//! Other programs read and verify what is written here, and what they write and sign is verified here:
//! skopeo in both directions, openssl, and Sigstore's own verifier for JavaScript.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use crate::support::tools::{self, Skopeo};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use fettle_supply::{
    ArtifactKind, ContentStore, KeyType, PublicKey, RegistryClient, RegistryOptions, SignatureFormat, SigningKey,
    Supplier, TrustPolicy, Verdict, testing::TestRegistry,
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

/// A registry, a published artifact, and a directory with skopeo's settings.
struct Published {
    registry: TestRegistry,
    home: tempfile::TempDir,
    client: RegistryClient,
    reference: fettle_model::reference::Reference,
}

impl Published {
    async fn new() -> Self {
        let (registry, home) = (TestRegistry::start(), tempfile::tempdir().unwrap());
        let client = RegistryClient::new(RegistryOptions::default()).unwrap();
        let repository = registry.repository("definitions/stage");
        let reference = client.push(ArtifactKind::Definition, &repository, &b"{}"[..], None).await.unwrap();
        fs::create_dir(home.path().join("registries.d")).unwrap();
        let attachments = "default-docker: { use-sigstore-attachments: true }\n";
        fs::write(home.path().join("registries.d/all.yaml"), attachments).unwrap();
        Self { registry, home, client, reference }
    }

    fn path(&self, name: &str) -> String {
        self.home.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, content: &str) -> String {
        fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    fn copy(&self, skopeo: &Skopeo, policy: &Value, more: &[&str], from: &str, to: &str) -> Result<(), String> {
        let policy = self.write("policy.json", &json!({ "default": [policy] }).to_string());
        let settings = ["--policy", &policy, "--registries.d", &self.path("registries.d"), "copy"];
        let options = ["--src-tls-verify=false", "--dest-tls-verify=false", "--preserve-digests"];
        let output = skopeo.run(&[&settings[..], &options, more, &[from, to]].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(error) }
    }

    async fn verdict(&self, reference: &fettle_model::reference::Reference, key: &PublicKey) -> Result<(), Verdict> {
        let store = tempfile::tempdir().unwrap();
        let trust = TrustPolicy::any_of([("team".to_owned(), key.clone())]).unwrap();
        let supplier = Supplier::new(ContentStore::open(store.path()).unwrap(), self.client.clone(), trust);
        let artifact = supplier.artifact(ArtifactKind::Definition, reference).await;
        artifact.map(drop).map_err(|error| error.verdict().unwrap())
    }
}

#[tokio::test]
async fn what_skopeo_signed_verifies_here() {
    let Some(skopeo) = Skopeo::find() else { return };
    for key_type in [KeyType::EcdsaP256, KeyType::Ed25519] {
        let world = Published::new().await;
        let (key, other) = (SigningKey::generate_as(key_type).unwrap(), SigningKey::generate_as(key_type).unwrap());
        key.save(world.path("key").as_ref(), b"secret").unwrap();
        let password = world.write("password", "secret");
        let signed = world.registry.repository("mirror/stage");
        let sign = ["--sign-by-sigstore-private-key", &world.path("key"), "--sign-passphrase-file", &password];
        let anything = json!({ "type": "insecureAcceptAnything" });
        let (from, to) = (format!("docker://{}", world.reference), format!("docker://{signed}:v1"));
        world.copy(&skopeo, &anything, &sign, &from, &to).unwrap_or_else(|error| panic!("{key_type:?}: {error}"));
        let reference = signed.at(world.reference.digest);
        assert_eq!(world.verdict(&reference, key.public()).await, Ok(()), "{key_type:?}");
        assert_eq!(world.verdict(&reference, other.public()).await, Err(Verdict::Untrusted));
        assert_eq!(world.verdict(&world.reference, key.public()).await, Err(Verdict::Unsigned));
    }
}

#[tokio::test]
async fn what_is_signed_here_passes_skopeos_policy_and_no_other_key_does() {
    let Some(skopeo) = Skopeo::find() else { return };
    for key_type in [KeyType::EcdsaP256, KeyType::Ed25519] {
        let world = Published::new().await;
        let (key, other) = (SigningKey::generate_as(key_type).unwrap(), SigningKey::generate_as(key_type).unwrap());
        let annotations = BTreeMap::from([("version".to_owned(), "7".to_owned())]);
        let sign = world.client.sign_as(&world.reference, &key, SignatureFormat::Both, &annotations);
        sign.await.unwrap();
        let file = |name: &str, key: &SigningKey| world.write(name, &key.public().to_pem());
        let (own, stranger) = (file("own", &key), file("stranger", &other));
        let elsewhere = world.registry.repository("mirror/stage");
        let exactly = json!({ "type": "exactRepository", "dockerRepository": world.reference.repository });
        let another = json!({ "type": "exactRepository", "dockerRepository": elsewhere });
        let anywhere = json!({ "type": "matchRepository" });
        let by_default = json!({ "type": "matchRepoDigestOrExact" });
        for (key, identity, expected) in [
            (&own, &by_default, true),
            (&stranger, &by_default, false),
            (&own, &anywhere, true),
            (&own, &exactly, true),
            (&own, &another, false),
            (&stranger, &anywhere, false),
        ] {
            let policy = json!({ "type": "sigstoreSigned", "keyPath": key, "signedIdentity": identity });
            let (from, to) = (format!("docker://{}", world.reference), format!("dir:{}", world.path("copy")));
            let copied = world.copy(&skopeo, &policy, &[], &from, &to);
            assert_eq!(copied.is_ok(), expected, "{key_type:?} {policy}: {copied:?}");
        }
        // A mirror keeps the signature; whose name it was made for can be mapped back.
        let anything = json!({ "type": "insecureAcceptAnything" });
        let (from, to) = (format!("docker://{}", world.reference), format!("docker://{elsewhere}:v1"));
        world.copy(&skopeo, &anything, &[], &from, &to).unwrap();
        let prefix = json!({
            "type": "remapIdentity",
            "prefix": elsewhere.to_string(),
            "signedPrefix": world.reference.repository.to_string(),
        });
        let policy = json!({ "type": "sigstoreSigned", "keyPath": own, "signedIdentity": prefix });
        let mirrored = format!("docker://{}", elsewhere.at(world.reference.digest));
        let unmapped = json!({ "type": "sigstoreSigned", "keyPath": own, "signedIdentity": anywhere });
        world.copy(&skopeo, &unmapped, &[], &mirrored, &format!("dir:{}", world.path("mirrored"))).unwrap_err();
        let mapped = world.copy(&skopeo, &policy, &[], &mirrored, &format!("dir:{}", world.path("mirrored")));
        mapped.unwrap_or_else(|error| panic!("{key_type:?}: {error}"));
    }
}

/// Verifies a bundle and prints what it says. Arguments: bundle, public key in PEM, hint.
const VERIFY_JS: &str = r#"
const fs = require("node:fs");
const crypto = require("node:crypto");
const { bundleFromJSON } = require("@sigstore/bundle");
const { TrustedRoot } = require("@sigstore/protobuf-specs");
const { toSignedEntity, toTrustMaterial, Verifier } = require("@sigstore/verify");
const [, , bundlePath, keyPath] = process.argv;
const key = crypto.createPublicKey(fs.readFileSync(keyPath, "utf8")).export({ type: "spki", format: "der" });
const hint = crypto.createHash("sha256").update(key).digest("base64");
const root = TrustedRoot.fromJSON({ tlogs: [], certificateAuthorities: [], ctlogs: [], timestampAuthorities: [] });
const material = toTrustMaterial(root, { [hint]: { rawBytes: key } });
const verifier = new Verifier(material, { tlogThreshold: 0, ctlogThreshold: 0, timestampThreshold: 0 });
const bundle = bundleFromJSON(JSON.parse(fs.readFileSync(bundlePath, "utf8")));
verifier.verify(toSignedEntity(bundle));
process.stdout.write(Buffer.from(bundle.content.dsseEnvelope.payload).toString("utf8"));
"#;

#[tokio::test]
async fn sigstores_own_verifier_accepts_our_bundles_and_no_changed_ones() {
    let Some(modules) = tools::sigstore_js() else { return };
    for key_type in [KeyType::EcdsaP256, KeyType::Ed25519] {
        let world = Published::new().await;
        let (key, other) = (SigningKey::generate_as(key_type).unwrap(), SigningKey::generate_as(key_type).unwrap());
        world.client.attest(&world.reference, &key, "https://slsa.dev/provenance/v1", &json!({})).await.unwrap();
        let [evidence] = <[_; 1]>::try_from(world.client.fetch_attestations(&world.reference).await.unwrap()).unwrap();
        let bundle: Value = serde_json::from_slice(evidence.bundle()).unwrap();
        let verify = |bundle: &Value, key: &SigningKey| {
            let (script, bundle) =
                (world.write("verify.js", VERIFY_JS), world.write("bundle.json", &bundle.to_string()));
            let key = world.write("key.pub", &key.public().to_pem());
            let mut node = Command::new("node");
            node.env("NODE_PATH", modules.join("node_modules")).args([script, bundle, key]).output().unwrap()
        };
        let good = verify(&bundle, &key);
        assert!(good.status.success(), "{key_type:?}: {}", String::from_utf8_lossy(&good.stderr));
        let statement: Value = serde_json::from_slice(&good.stdout).unwrap();
        assert_eq!(statement["subject"][0]["digest"]["sha256"], json!(world.reference.digest.hex()));
        assert!(!verify(&bundle, &other).status.success(), "another key is accepted");
        let mut changed = bundle.clone();
        changed["dsseEnvelope"]["payload"] = json!(STANDARD.encode(b"{}"));
        assert!(!verify(&changed, &key).status.success(), "a changed payload is accepted");
    }
}
