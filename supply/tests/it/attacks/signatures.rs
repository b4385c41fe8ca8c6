//! Signatures that say less than they seem to, and registries that lie about them.

use fettle_model::digest::Digest;
use fettle_supply::{
    ArtifactKind, ContentStore, PublicKey, RegistryClient, SigningKey, Supplier, TrustFiles, TrustPolicy, Verdict,
    mutation::Protection, testing::Misbehaviour,
};
use serde_json::{Value, json};

use super::{
    support::{WASM, World, options},
    world::{Outcome, Refusal, attack, read, rule, signed},
};

const UNTRUSTED: Refusal = Refusal::Verdict(Verdict::Untrusted);
const MALFORMED: Refusal = Refusal::Verdict(Verdict::Malformed);

fn trusting(key: &PublicKey) -> TrustPolicy {
    read(&json!({ "step": { "anyOf": [rule("team", key)] } })).unwrap()
}

fn saying(name: &str, key: &PublicKey, channel: &str) -> Value {
    let mut rule = rule(name, key);
    rule["annotations"] = json!({ "channel": channel });
    rule
}

#[tokio::test]
async fn an_empty_list_of_signatures() {
    attack(Protection::NoSignaturesNoTrust, Refusal::Verdict(Verdict::Unsigned), async || {
        let world = World::new().await;
        let reference = world.push().await;
        Ok(world.step(&trusting(world.key.public()), &reference).await.map(drop)?)
    })
    .await;
}

#[tokio::test]
async fn a_registry_failure_read_as_no_signature() {
    attack(Protection::OutageIsNoAnswer, Refusal::Verdict(Verdict::Unavailable), async || {
        let world = World::new().await;
        let reference = world.publish().await;
        let down = Misbehaviour::Status(500, "the disk is on fire".to_owned());
        world.proxy.misbehave(&format!("sha256-{}", reference.digest.hex()), down);
        match world.step(&trusting(world.key.public()), &reference).await {
            // The attacker wants it to look as if nobody had signed, for whoever lets the unsigned pass.
            Err(error) if error.verdict() == Some(Verdict::Unsigned) => Ok(()),
            result => Ok(result.map(drop)?),
        }
    })
    .await;
}

#[tokio::test]
async fn one_constraint_met_by_one_signature_and_the_next_by_another() {
    attack(Protection::OneSignaturePerRule, UNTRUSTED, async || {
        let world = World::new().await;
        let other = SigningKey::generate().unwrap();
        let rules = [saying("stable", world.key.public(), "stable"), saying("beta", other.public(), "beta")];
        let policy = read(&json!({ "step": { "anyOf": rules } })).unwrap();
        let reference = world.push().await;
        let halves = vec![
            signed(&world.key, &reference.digest, &[("channel", "nightly")]),
            signed(&other, &reference.digest, &[("channel", "stable")]),
        ];
        world.attach(&reference.digest, halves).await;
        Ok(world.step(&policy, &reference).await.map(drop)?)
    })
    .await;
}

#[tokio::test]
async fn annotations_believed_before_the_payload_is_checked() {
    attack(Protection::AnnotationsAreSigned, UNTRUSTED, async || {
        let world = World::new().await;
        let policy = read(&json!({ "step": { "anyOf": [saying("team", world.key.public(), "stable")] } })).unwrap();
        let reference = world.push().await;
        let mut layer = signed(&world.key, &reference.digest, &[]);
        // The registry can write here what it likes.
        layer.beside = vec![("channel", "stable")];
        world.attach(&reference.digest, vec![layer]).await;
        Ok(world.step(&policy, &reference).await.map(drop)?)
    })
    .await;
}

#[tokio::test]
async fn a_signature_over_another_digest() {
    attack(Protection::SubjectIsTheArtifact, UNTRUSTED, async || {
        let world = World::new().await;
        let good = world.publish().await;
        let evil = world.client.push(ArtifactKind::Step, &world.direct(), &b"\0asm evil"[..], None).await.unwrap();
        world.attach(&evil.digest, vec![signed(&world.key, &good.digest, &[])]).await;
        let evil = world.repository().at(evil.digest);
        Ok(world.step(&trusting(world.key.public()), &evil).await.map(drop)?)
    })
    .await;
}

#[tokio::test]
async fn a_verdict_kept_without_the_digest_of_its_policy() {
    attack(Protection::VerdictNamesPolicy, UNTRUSTED, async || {
        let world = World::new().await;
        let reference = world.publish().await;
        let supplier = world.victim(&trusting(world.key.public()));
        supplier.artifact(ArtifactKind::Step, &reference).await?;
        let successor = SigningKey::generate().unwrap();
        // The key was lost, and the policy trusts its successor only.
        let supplier = supplier.trusting(trusting(successor.public()));
        Ok(supplier.artifact(ArtifactKind::Step, &reference).await.map(drop)?)
    })
    .await;
}

#[tokio::test]
async fn a_roll_back_to_an_older_signed_version() {
    attack(Protection::NoRollBack, UNTRUSTED, async || {
        let world = World::new().await;
        let requirement = json!({ "anyOf": [rule("team", world.key.public())], "versions": { "neverOlder": true } });
        let policy = read(&json!({ "step": requirement })).unwrap();
        let mut references = Vec::new();
        for (version, content) in [("1.9", &b"\0asm with a hole"[..]), ("1.10", b"\0asm mended")] {
            let pushed = world.client.push(ArtifactKind::Step, &world.direct(), content, None).await.unwrap();
            let says = [("fettle.name", "file.render@v1"), ("fettle.version", version)];
            world.attach(&pushed.digest, vec![signed(&world.key, &pushed.digest, &says)]).await;
            references.push(world.repository().at(pushed.digest));
        }
        for reference in &references {
            world.step(&policy, reference).await?;
        }
        // Every one of these has a store of its own in the same directory: this machine remembers.
        Ok(world.step(&policy, &references[0]).await.map(drop)?)
    })
    .await;
}

#[tokio::test]
async fn a_roll_back_below_the_minimum_of_the_policy() {
    attack(Protection::NoRollBack, UNTRUSTED, async || {
        let world = World::new().await;
        let versions = json!({ "minimum": { "file.render@v1": "1.10" } });
        let requirement = json!({ "anyOf": [rule("team", world.key.public())], "versions": versions });
        let policy = read(&json!({ "step": requirement })).unwrap();
        let reference = world.push().await;
        let says = [("fettle.name", "file.render@v1"), ("fettle.version", "1.9")];
        world.attach(&reference.digest, vec![signed(&world.key, &reference.digest, &says)]).await;
        Ok(world.step(&policy, &reference).await.map(drop)?)
    })
    .await;
}

#[tokio::test]
async fn a_digest_that_an_administrator_denied_while_it_was_in_use() {
    for part in ["manifest", "layer"] {
        attack(Protection::DeniedIsRefused, UNTRUSTED, async || {
            let world = World::new().await;
            let reference = world.publish().await;
            let file = world.home.path().join("trust.json");
            let mut policy = json!({ "step": { "anyOf": [rule("team", world.key.public())] } });
            std::fs::write(&file, policy.to_string()).unwrap();
            let store = ContentStore::open(world.home.path()).unwrap();
            let trust = TrustFiles::new(file.clone(), None, None);
            let supplier = Supplier::new(store, RegistryClient::new(options()).unwrap(), trust);
            supplier.artifact(ArtifactKind::Step, &reference).await?;
            let denied = if part == "manifest" { reference.digest } else { Digest::of(WASM) };
            policy["deny"] = json!([{ "digest": denied, "reason": "CVE-2026-0001" }]);
            std::fs::write(&file, policy.to_string()).unwrap();
            Ok(supplier.artifact(ArtifactKind::Step, &reference).await.map(drop)?)
        })
        .await;
    }
}

/// Signs a manifest that was changed, and asks for it.
async fn changed_manifest(change: impl Fn(&mut Value)) -> Outcome {
    let world = World::new().await;
    let mut manifest = world.good_manifest().await;
    change(&mut manifest);
    let reference = world.serve_signed(manifest.to_string().into_bytes()).await;
    Ok(world.step(&trusting(world.key.public()), &reference).await.map(drop)?)
}

#[tokio::test]
async fn a_manifest_list_instead_of_a_manifest() {
    attack(Protection::NoIndex, MALFORMED, async || {
        // Both at once: one reader takes the list, another the layers.
        changed_manifest(|manifest| manifest["manifests"] = json!([])).await
    })
    .await;
}

#[tokio::test]
async fn a_second_wasm_layer() {
    attack(Protection::OneLayer, MALFORMED, async || {
        changed_manifest(|manifest| {
            let first = manifest["layers"][0].clone();
            manifest["layers"].as_array_mut().unwrap().push(first);
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn a_urls_field_in_a_descriptor() {
    attack(Protection::NoUrls, MALFORMED, async || {
        changed_manifest(|manifest| manifest["layers"][0]["urls"] = json!(["http://127.0.0.1:1/evil"])).await
    })
    .await;
}
