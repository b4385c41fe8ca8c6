//! What attackers need: a registry that takes anything, signatures of any form, and a victim.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use fettle_model::{
    digest::Digest,
    reference::{Reference, Repository},
};
use fettle_supply::{
    Artifact, ArtifactKind, PublicKey, SigningKey, Supplier, SupplyError, TrustPolicy, TrustPolicyError, Verdict,
    mutation::{Protection, without},
};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::support::World;

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";

/// A protection is out for the whole process, so attacks take turns.
static TURN: Mutex<()> = Mutex::const_new(());

/// What an attack came to.
pub(crate) type Outcome = Result<(), Refusal>;

/// Why it did not get through.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Verdict(Verdict),
    /// The trust policy that would allow it is no policy.
    Policy,
    /// The new trust policy does not take effect.
    Rotation,
    /// What was changed is not used.
    NotUsed,
}

impl From<SupplyError> for Refusal {
    fn from(error: SupplyError) -> Self {
        Self::Verdict(error.verdict().unwrap_or_else(|| panic!("{error} is no verdict")))
    }
}

impl From<TrustPolicyError> for Refusal {
    fn from(_: TrustPolicyError) -> Self {
        Self::Policy
    }
}

/// Runs an attack twice: with its protection, which must keep it out as expected; and without, which
/// must let it through, or the protection protects nothing.
pub(crate) async fn attack(protection: Protection, expected: Refusal, attempt: impl AsyncFn() -> Outcome) {
    let _turn = TURN.lock().await;
    assert_eq!(attempt().await, Err(expected), "{protection:?} does not keep it out");
    let _out = without(protection);
    assert_eq!(attempt().await, Ok(()), "the attack fails without {protection:?} too, so it tests something else");
}

/// The same for what only looks at data.
pub(crate) async fn attack_on(protection: Protection, expected: Refusal, attempt: impl Fn() -> Outcome) {
    attack(protection, expected, async || attempt()).await;
}

pub(crate) fn read(policy: &Value) -> Result<TrustPolicy, TrustPolicyError> {
    TrustPolicy::read(&policy.to_string())
}

pub(crate) fn rule(name: &str, key: &PublicKey) -> Value {
    json!({ "kind": "publicKey", "name": name, "key": key })
}

/// Pushes bytes as a blob, as any client can.
async fn push_blob(repository: &Repository, content: &[u8]) -> Digest {
    let client = reqwest::Client::new();
    let base = format!("http://{}/v2/{}", repository.registry(), repository.path());
    let begun = client.post(format!("{base}/blobs/uploads/")).body("").send().await.unwrap();
    let place = begun.headers()["location"].to_str().unwrap().to_owned();
    let digest = Digest::of(content);
    let put = client.put(place).query(&[("digest", digest.to_string())]).body(content.to_vec());
    assert!(put.send().await.unwrap().status().is_success());
    digest
}

/// Pushes a manifest under a tag, as any client can.
async fn push_manifest(repository: &Repository, tag: &str, manifest: &Value) {
    let url = format!("http://{}/v2/{}/manifests/{tag}", repository.registry(), repository.path());
    let put = reqwest::Client::new().put(url).header("content-type", MANIFEST).body(manifest.to_string());
    let answer = put.send().await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
}

/// What a signature says that it signed.
pub(crate) fn payload(digest: &Digest, annotations: &[(&str, &str)]) -> Vec<u8> {
    let optional: BTreeMap<&str, &str> = annotations.iter().copied().collect();
    let payload = json!({
        "critical": {
            "identity": { "docker-reference": "registry.example.com/steps/render" },
            "image": { "docker-manifest-digest": digest },
            "type": "cosign container image signature",
        },
        "optional": optional,
    });
    serde_json::to_vec(&payload).unwrap()
}

/// One layer of a `.sig` manifest.
pub(crate) struct Layer {
    pub(crate) payload: Vec<u8>,
    pub(crate) signature: Vec<u8>,
    /// Beside the signature; nobody signed them.
    pub(crate) beside: Vec<(&'static str, &'static str)>,
}

/// A true signature that says something.
pub(crate) fn signed(key: &SigningKey, digest: &Digest, annotations: &[(&str, &str)]) -> Layer {
    let payload = payload(digest, annotations);
    let signature = key.sign(&payload).unwrap();
    Layer { payload, signature, beside: Vec::new() }
}

impl World {
    /// Puts signatures beside an artifact, in place of those that are there.
    pub(crate) async fn attach(&self, digest: &Digest, layers: Vec<Layer>) {
        let repository = self.direct();
        let mut descriptors = Vec::new();
        for layer in layers {
            let blob = push_blob(&repository, &layer.payload).await;
            let mut annotations = json!({ "dev.cosignproject.cosign/signature": STANDARD.encode(&layer.signature) });
            for (name, value) in layer.beside {
                annotations[name] = json!(value);
            }
            descriptors.push(json!({
                "mediaType": PAYLOAD, "digest": blob, "size": layer.payload.len(), "annotations": annotations,
            }));
        }
        let config = push_blob(&repository, b"{}").await;
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "layers": descriptors,
            "config": { "mediaType": "application/vnd.oci.image.config.v1+json", "digest": config, "size": 2 },
        });
        push_manifest(&repository, &format!("sha256-{}.sig", digest.hex()), &manifest).await;
    }

    /// The victim, who trusts as the policy says.
    pub(crate) fn victim(&self, policy: &TrustPolicy) -> Supplier {
        self.supplier().trusting(policy.clone())
    }

    pub(crate) async fn step(&self, policy: &TrustPolicy, reference: &Reference) -> Result<Artifact, SupplyError> {
        self.victim(policy).artifact(ArtifactKind::Step, reference).await
    }

    /// The manifest of a signed step, to be changed and signed again.
    pub(crate) async fn good_manifest(&self) -> Value {
        let reference = self.publish().await;
        let raw = self.client.fetch_manifest(&reference, 1 << 20).await.unwrap();
        serde_json::from_slice(&raw.content).unwrap()
    }
}
