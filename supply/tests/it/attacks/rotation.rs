//! New trust policies.

use std::{fs, path::Path};

use fettle_model::{canonical, reference::Reference};
use fettle_supply::{
    ArtifactKind, ContentStore, PublicKey, RegistryClient, RotationError, SigningKey, Supplier, TrustFiles,
    TrustSource, Verdict, mutation::Protection,
};
use serde_json::{Value, json};

use super::{
    support::{World, options},
    world::{Outcome, Refusal, attack, rule},
};

/// A policy whose root is one key and which lets another sign steps.
fn policy(revision: u64, root: &PublicKey, steps: &PublicKey) -> Value {
    let one = |key| json!({ "anyOf": [rule("team", key)] });
    json!({ "revision": revision, "trust_policy": one(root), "step": one(steps) })
}

struct Node {
    world: World,
    root: SigningKey,
}

impl Node {
    async fn new(revision: u64) -> Self {
        let node = Self { world: World::new().await, root: SigningKey::generate().unwrap() };
        let configured = policy(revision, node.root.public(), node.world.key.public());
        fs::write(node.file(), configured.to_string()).unwrap();
        node
    }

    fn file(&self) -> std::path::PathBuf {
        self.world.home.path().join("trust.json")
    }

    fn data(&self) -> &Path {
        self.world.home.path()
    }

    fn trust(&self) -> TrustSource {
        TrustFiles::new(self.file(), None, Some(self.data().to_owned())).into()
    }

    fn supplier(&self) -> Supplier {
        let store = ContentStore::open(&self.data().join("content")).unwrap();
        Supplier::new(store, RegistryClient::new(options()).unwrap(), self.trust())
    }

    async fn publish(&self, policy: &Value, signers: &[&SigningKey]) -> Reference {
        let (client, repository) = (&self.world.client, self.world.direct());
        let content = canonical::to_bytes(policy).unwrap();
        let pushed = client.push(ArtifactKind::TrustPolicy, &repository, content, None).await.unwrap();
        for signer in signers {
            client.sign(&pushed, signer).await.unwrap();
        }
        self.world.repository().at(pushed.digest)
    }

    /// Whether a step that the attacker signed is used now.
    async fn runs_what_is_signed_by(&self, attacker: &SigningKey) -> Outcome {
        let step = self.world.push().await;
        self.world.client.sign(&self.world.direct().at(step.digest), attacker).await.unwrap();
        Ok(self.supplier().artifact(ArtifactKind::Step, &step).await.map(drop)?)
    }
}

async fn activated(node: &Node, reference: &Reference) -> Outcome {
    node.supplier().activate(reference).await.map(drop).map_err(|_| Refusal::Rotation)
}

#[tokio::test]
async fn a_trust_policy_that_its_own_signer_signed() {
    attack(Protection::RotationIsSigned, Refusal::Rotation, async || {
        let (node, attacker) = (Node::new(1).await, SigningKey::generate().unwrap());
        let evil = policy(2, attacker.public(), attacker.public());
        activated(&node, &node.publish(&evil, &[&attacker]).await).await?;
        node.runs_what_is_signed_by(&attacker).await
    })
    .await;
}

#[tokio::test]
async fn a_roll_back_to_an_older_trust_policy() {
    attack(Protection::RotationIsNewer, Refusal::Rotation, async || {
        let (node, lost) = (Node::new(3).await, SigningKey::generate().unwrap());
        // Signed by the root in its day, when the key that was lost still counted.
        let older = policy(2, node.root.public(), lost.public());
        activated(&node, &node.publish(&older, &[&node.root]).await).await?;
        node.runs_what_is_signed_by(&lost).await
    })
    .await;
}

#[tokio::test]
async fn a_newer_trust_policy_that_the_root_signed_is_in_force_at_once_and_after_a_restart() {
    let (node, successor) = (Node::new(1).await, SigningKey::generate().unwrap());
    let running = node.supplier();
    let step = node.world.publish().await;
    running.artifact(ArtifactKind::Step, &step).await.unwrap();
    let newer = policy(2, node.root.public(), successor.public());
    let reference = node.publish(&newer, &[&node.root]).await;
    let activation = node.supplier().activate(&reference).await.unwrap();
    assert_eq!((activation.revision, &activation.reference), (2, &reference));
    for supplier in [&running, &node.supplier()] {
        let error = supplier.artifact(ArtifactKind::Step, &step).await.unwrap_err();
        assert_eq!(error.verdict(), Some(Verdict::Untrusted), "the policy before it still counts");
        assert_eq!(supplier.trust().unwrap().policy().revision(), 2);
    }
    node.runs_what_is_signed_by(&successor).await.unwrap();
    // The same one again is not newer, and the next one follows from it.
    assert!(matches!(node.supplier().activate(&reference).await, Err(RotationError::NotNewer { current: 2, .. })));
    let third = policy(3, successor.public(), successor.public());
    let reference = node.publish(&third, &[&node.root]).await;
    node.supplier().activate(&reference).await.unwrap();
    let fourth = node.publish(&policy(4, node.root.public(), node.root.public()), &[&node.root]).await;
    let error = node.supplier().activate(&fourth).await.unwrap_err();
    assert!(matches!(error, RotationError::NotAccepted { current: 3, .. }), "the root before the last still counts");
}

#[tokio::test]
async fn a_threshold_of_roots_is_a_threshold() {
    let (node, second) = (Node::new(1).await, SigningKey::generate().unwrap());
    let mut configured = policy(1, node.root.public(), node.root.public());
    let roots = [rule("a", node.root.public()), rule("b", second.public())];
    configured["trust_policy"] = json!({ "anyOf": roots, "minimumMatches": 2 });
    fs::write(node.file(), configured.to_string()).unwrap();
    let newer = policy(2, second.public(), second.public());
    let reference = node.publish(&newer, &[&node.root]).await;
    assert_eq!(activated(&node, &reference).await, Err(Refusal::Rotation));
    node.publish(&newer, &[&second]).await;
    activated(&node, &reference).await.unwrap();
}

#[tokio::test]
async fn a_link_that_was_planted_changed_or_renamed_is_worth_nothing() {
    let (node, attacker) = (Node::new(1).await, SigningKey::generate().unwrap());
    let newer = policy(2, node.root.public(), node.world.key.public());
    let reference = node.publish(&newer, &[&node.root]).await;
    node.supplier().activate(&reference).await.unwrap();
    let link = node.data().join("trust/00000000000000000002.json");
    let text = fs::read_to_string(&link).unwrap();
    let mut changed: Value = serde_json::from_str(&text).unwrap();
    changed["policy"] = json!(policy(2, attacker.public(), attacker.public()).to_string());
    for (name, planted) in
        [("00000000000000000002.json", changed.to_string()), ("00000000000000000009.json", text.clone())]
    {
        let path = node.data().join("trust").join(name);
        fs::write(&path, planted).unwrap();
        assert!(node.trust().current().is_err(), "{name} counts");
        let step = node.world.publish().await;
        assert!(node.supplier().artifact(ArtifactKind::Step, &step).await.is_err(), "{name}: something is trusted");
        fs::remove_file(path).unwrap();
        fs::write(&link, &text).unwrap();
        node.trust().current().unwrap();
    }
    // A newer file of the administrator goes on from there.
    fs::write(node.file(), policy(5, attacker.public(), attacker.public()).to_string()).unwrap();
    assert_eq!(node.trust().current().unwrap().policy().revision(), 5);
}
