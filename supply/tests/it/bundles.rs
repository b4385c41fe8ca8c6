//! Signatures as Sigstore bundles that refer to an artifact, made with a key.

use std::collections::BTreeMap;

use crate::support::{WASM, World};
use fettle_model::reference::Reference;
use fettle_supply::{
    ArtifactKind, KeyType, Rejection, SignatureFormat, Signer, SigningKey, Verdict,
    mutation::{Protection, without},
    testing::{Misbehaviour, attach},
};
use serde_json::{Value, json};

async fn signed(world: &World, format: SignatureFormat, annotations: &[(&str, &str)]) -> Reference {
    let reference = world.push().await;
    let annotations = annotations.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    world.client.sign_as(&world.direct().at(reference.digest), &world.key, format, &annotations).await.unwrap();
    reference
}

#[tokio::test]
async fn a_bundle_alone_suffices_and_is_kept() {
    let mut world = World::new().await;
    let reference = signed(&world, SignatureFormat::Bundle, &[]).await;
    assert_eq!(world.get(&reference).await.unwrap().content, WASM);
    world.registry.stop();
    assert_eq!(world.get(&reference).await.unwrap().content, WASM);
}

#[tokio::test]
async fn both_types_of_keys_sign_in_both_formats_with_annotations() {
    let world = World::new().await;
    for key_type in [KeyType::EcdsaP256, KeyType::Ed25519] {
        let key = SigningKey::generate_as(key_type).unwrap();
        let content = format!("\0asm {key_type:?}").into_bytes();
        let reference = world.client.push(ArtifactKind::Step, &world.direct(), content, None).await.unwrap();
        let annotations = BTreeMap::from([("version".to_owned(), "7".to_owned())]);
        for _ in 0..2 {
            world.client.sign_as(&reference, &key, SignatureFormat::Both, &annotations).await.unwrap();
        }
        let evidence = world.client.fetch_signatures(&reference).await.unwrap();
        assert_eq!(evidence.len(), 2, "signing twice made more");
        for evidence in evidence {
            let signed = evidence.statement_by(reference.digest, &[key.public().clone()], None).unwrap();
            assert_eq!(signed.signer, Signer::Key(key.public().id()));
            assert_eq!(signed.annotations, annotations);
            let other = SigningKey::generate_as(key_type).unwrap();
            let rejection = evidence.statement_by(reference.digest, &[other.public().clone()], None).unwrap_err();
            assert!(matches!(rejection, Rejection::OtherSigner(_)), "{rejection}");
        }
    }
}

#[tokio::test]
async fn a_signature_with_other_annotations_is_another_signature() {
    let world = World::new().await;
    let reference = signed(&world, SignatureFormat::Both, &[]).await;
    signed(&world, SignatureFormat::Both, &[("environment", "production")]).await;
    assert_eq!(world.client.fetch_signatures(&reference).await.unwrap().len(), 4);
}

#[tokio::test]
async fn an_attestation_is_told_from_a_signature_and_says_what_was_signed() {
    let world = World::new().await;
    let reference = world.push().await;
    let direct = world.direct().at(reference.digest);
    let predicate = json!({ "SPDXID": "SPDXRef-DOCUMENT" });
    world.client.attest(&direct, &world.key, "https://spdx.dev/Document", &predicate).await.unwrap();
    assert_eq!(world.client.fetch_signatures(&direct).await.unwrap(), []);
    let [evidence] = <[_; 1]>::try_from(world.client.fetch_attestations(&direct).await.unwrap()).unwrap();
    let keys = [world.key.public().clone()];
    let attestation = evidence.statement_by(reference.digest, &keys, None).unwrap();
    assert_eq!(attestation.signer, Signer::Key(world.key.public().id()));
    assert_eq!(attestation.predicate_type, "https://spdx.dev/Document");
    assert_eq!(attestation.predicate, predicate);
    let other = SigningKey::generate().unwrap();
    assert!(evidence.statement_by(reference.digest, &[other.public().clone()], None).is_err());
    let elsewhere = fettle_model::digest::Digest::of(b"another artifact");
    let rejection = evidence.statement_by(elsewhere, &keys, None).unwrap_err();
    assert!(matches!(rejection, Rejection::OtherSubject { .. }), "{rejection}");
}

#[tokio::test]
async fn a_bundle_that_is_too_large_is_no_signature_and_hides_no_other() {
    let world = World::new().await;
    let reference = signed(&world, SignatureFormat::Bundle, &[("padding", &"x".repeat(70_000))]).await;
    let keys = [world.key.public().clone()];
    let check = async || {
        let [evidence] = <[_; 1]>::try_from(world.client.fetch_signatures(&reference).await.unwrap()).unwrap();
        evidence.statement_by(reference.digest, &keys, None)
    };
    let rejection = check().await.unwrap_err();
    assert!(rejection.to_string().contains("larger than 65536 bytes"), "{rejection}");
    assert_eq!(rejection.verdict(), Verdict::Malformed);
    {
        let _out = without(Protection::BundleSizeIsBounded);
        check().await.unwrap();
    }
    signed(&world, SignatureFormat::Bundle, &[]).await;
    world.get(&reference).await.unwrap();
}

#[tokio::test]
async fn more_signatures_than_the_bound_are_malformed() {
    let world = World::new().await;
    let reference = world.push().await;
    let direct = world.direct().at(reference.digest);
    for index in 0..33 {
        let content = format!("{{\"index\":{index}}}");
        attach::bundle(&world.client, &direct, content.as_bytes()).await;
    }
    let entries = world.client.fetch_signatures(&direct).await.unwrap();
    assert_eq!(entries.len(), 33);
    // Cosign's own count towards the same bound.
    for index in 0..32 {
        let payload = format!("{{\"index\":{index}}}");
        let signature = BTreeMap::from([("dev.cosignproject.cosign/signature".to_owned(), "AAAA".to_owned())]);
        attach::cosign(&world.client, &direct, payload.as_bytes(), &signature).await;
    }
    let error = world.client.fetch_signatures(&direct).await.unwrap_err();
    assert!(error.to_string().contains("more than 64 signatures"), "{error}");
    assert_eq!(error.verdict(), Some(Verdict::Malformed));
    let _out = without(Protection::SignatureCountIsBounded);
    assert_eq!(world.client.fetch_signatures(&direct).await.unwrap().len(), 65);
}

#[tokio::test]
async fn a_bundle_for_one_artifact_is_no_signature_of_another_wherever_it_is_put() {
    let world = World::new().await;
    let good = signed(&world, SignatureFormat::Bundle, &[]).await;
    let evil = world.client.push(ArtifactKind::Step, &world.direct(), &b"\0asm evil"[..], None).await.unwrap();
    // The good one's bundle, as one that refers to the evil one.
    let list = format!("http://{}/v2/steps/render/manifests/sha256-{}", world.registry.address(), good.digest.hex());
    let request = reqwest::Client::new().get(&list).header("accept", "application/vnd.oci.image.index.v1+json");
    let index: Value = request.send().await.unwrap().json().await.unwrap();
    let manifest = index["manifests"][0]["digest"].as_str().unwrap().to_owned();
    let manifest = world.client.fetch_manifest(&world.direct().at(manifest.parse().unwrap()), 1 << 20).await.unwrap();
    let manifest: Value = serde_json::from_slice(&manifest.content).unwrap();
    let bundle = manifest["layers"][0]["digest"].as_str().unwrap();
    let blob = format!("http://{}/v2/steps/render/blobs/{bundle}", world.registry.address());
    let bundle = reqwest::get(&blob).await.unwrap().bytes().await.unwrap();
    attach::bundle(&world.client, &evil, &bundle).await;
    let [evidence] = <[_; 1]>::try_from(world.client.fetch_signatures(&evil).await.unwrap()).unwrap();
    let keys = [world.key.public().clone()];
    let rejection = evidence.statement_by(evil.digest, &keys, None).unwrap_err();
    assert!(matches!(rejection, Rejection::OtherSubject { .. }), "{rejection}");
    {
        let _out = without(Protection::SubjectIsTheArtifact);
        evidence.statement_by(evil.digest, &keys, None).unwrap();
    }
    // And its whole list, served for the evil one: each of its manifests names its subject.
    let answer =
        Misbehaviour::Answer("application/vnd.oci.image.index.v1+json".to_owned(), index.to_string().into_bytes());
    world.proxy.misbehave(&format!("manifests/sha256-{}", evil.digest.hex()), answer);
    let evil = world.repository().at(evil.digest);
    let all = world.client.fetch_signatures(&evil).await;
    assert!(all.is_err() || all.unwrap().iter().all(|it| it.statement_by(evil.digest, &keys, None).is_err()));
}

#[tokio::test]
async fn annotations_of_the_manifest_are_not_believed() {
    let world = World::new().await;
    let reference = signed(&world, SignatureFormat::Bundle, &[("environment", "staging")]).await;
    let evidence = world.client.fetch_signatures(&reference).await.unwrap().remove(0);
    let signed = evidence.statement_by(reference.digest, &[world.key.public().clone()], None).unwrap();
    let expected = BTreeMap::from([("environment".to_owned(), "staging".to_owned())]);
    assert_eq!(signed.annotations, expected, "more than what was signed is taken");
}

#[tokio::test]
async fn a_bundle_that_is_no_bundle_is_malformed_and_hides_no_other() {
    for content in ["", "{}", "null", "\u{0}", "{\"mediaType\":\"application/vnd.dev.sigstore.bundle.v0.3+json\"}"] {
        let world = World::new().await;
        let reference = world.push().await;
        let direct = world.direct().at(reference.digest);
        attach::bundle(&world.client, &direct, content.as_bytes()).await;
        assert_eq!(world.get(&reference).await.unwrap_err().verdict(), Some(Verdict::Malformed), "{content}");
        world.client.sign_as(&direct, &world.key, SignatureFormat::Bundle, &BTreeMap::new()).await.unwrap();
        world.get(&reference).await.unwrap();
    }
}
