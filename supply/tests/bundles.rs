//! Signatures as Sigstore bundles that refer to an artifact, made with a key.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use std::collections::BTreeMap;

use fettle_model::reference::Reference;
use fettle_supply::{ArtifactKind, KeyType, Rejection, SignatureFormat, Signer, SigningKey};
use serde_json::json;
use support::{WASM, World};

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
