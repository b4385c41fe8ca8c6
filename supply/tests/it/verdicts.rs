//! What is not signed, not by the right key, not the same bytes or not an artifact is never returned.

use std::{fs, os::unix::fs::symlink};

use crate::support::{WASM, World, verdict};
use fettle_model::digest::Digest;
use fettle_supply::{
    ArtifactKind, Defect, Manifest, Outage, Signer, SigningKey, SupplyError, Verdict, testing::Misbehaviour,
};
use serde_json::{Value, json};

#[tokio::test]
async fn an_unsigned_artifact_is_refused_and_not_kept() {
    let world = World::new().await;
    let reference = world.push().await;
    assert_eq!(verdict(&reference, world.get(&reference).await), Verdict::Unsigned);
    assert_eq!(fs::read_dir(world.home.path().join("blobs/sha256")).unwrap().count(), 0);
    world.sign(reference.digest).await;
    assert_eq!(world.get(&reference).await.unwrap().content, WASM);
}

#[tokio::test]
async fn another_keys_signature_is_no_signature() {
    let world = World::new().await;
    let reference = world.push().await;
    let other = SigningKey::generate().unwrap();
    world.client.sign(&world.direct().at(reference.digest), &other).await.unwrap();
    assert_eq!(verdict(&reference, world.get(&reference).await), Verdict::Untrusted);
}

#[tokio::test]
async fn a_signature_of_another_digest_is_no_signature() {
    let world = World::new().await;
    let good = world.publish().await;
    let evil = world.client.push(ArtifactKind::Step, &world.direct(), &b"\0asm evil"[..], None).await.unwrap();
    // The registry serves the good artifact's signatures for the evil one.
    let tag = |digest: &Digest| format!("sha256-{}.sig", digest.hex());
    let media_type = "application/vnd.oci.image.manifest.v1+json".to_owned();
    let url = format!("http://{}/v2/steps/render/manifests/{}", world.registry.address(), tag(&good.digest));
    let response = reqwest::Client::new().get(url).header("accept", &media_type).send().await.unwrap();
    let body = response.bytes().await.unwrap().to_vec();
    world.proxy.misbehave(&tag(&evil.digest), Misbehaviour::Answer(media_type, body));
    let evil = world.repository().at(evil.digest);
    let error = world.get(&evil).await.unwrap_err();
    assert!(error.to_string().contains(&good.digest.to_string()), "{error}");
    assert_eq!(verdict(&evil, Err(error)), Verdict::Untrusted);
}

#[tokio::test]
async fn a_key_taken_out_of_the_policy_counts_no_longer_even_for_what_is_kept() {
    let mut world = World::new().await;
    let reference = world.publish().await;
    world.get(&reference).await.unwrap();
    let successor = SigningKey::generate().unwrap();
    let get = async |world: &World| world.supplier_trusting(&successor).artifact(ArtifactKind::Step, &reference).await;
    assert_eq!(verdict(&reference, get(&world).await), Verdict::Untrusted);
    // Whether the successor has signed meanwhile cannot be known without the registry.
    world.registry.stop();
    assert_eq!(verdict(&reference, get(&world).await), Verdict::Unavailable);
    world.registry.restart();
    world.client.sign(&world.direct().at(reference.digest), &successor).await.unwrap();
    assert_eq!(get(&world).await.unwrap().signers, [Signer::Key(successor.public().id())]);
}

#[tokio::test]
async fn changed_bytes_in_the_registry_are_malformed() {
    for part in ["manifest", "layer", "configuration"] {
        let world = World::new().await;
        let reference = world.publish().await;
        let raw = world.client.fetch_manifest(&reference, 1 << 20).await.unwrap();
        let manifest = Manifest::parse(&raw.content).unwrap();
        let changed = match part {
            "manifest" => reference.digest,
            "layer" => manifest.layers[0].digest,
            _ => manifest.config.digest,
        };
        world.registry.corrupt(&changed);
        let error = world.get(&reference).await.unwrap_err();
        match &error {
            SupplyError::Malformed { reason: Defect::ChangedBytes { what, expected, actual }, .. } => {
                assert_eq!((what.as_str(), expected), (part, &changed));
                assert!(error.to_string().contains(&actual.to_string()) && actual != expected, "{error}");
            }
            // The registry looks into its manifests and notices this one itself.
            SupplyError::Unavailable { reason: Outage::Status { .. } | Outage::Missing(_), .. }
                if part == "manifest" => {}
            other => panic!("{part}: {other}"),
        }
    }
}

#[tokio::test]
async fn changed_bytes_in_transit_are_malformed() {
    let world = World::new().await;
    let reference = world.publish().await;
    for part in [format!("manifests/{}", reference.digest), "/blobs/".to_owned()] {
        world.proxy.misbehave(&part, Misbehaviour::Flip(12));
        assert_eq!(verdict(&reference, world.get(&reference).await), Verdict::Malformed, "{part}");
    }
    world.proxy.behave();
    world.get(&reference).await.unwrap();
}

#[tokio::test]
async fn another_manifest_under_a_signed_reference_is_malformed() {
    let world = World::new().await;
    let reference = world.publish().await;
    let evil = world.client.push(ArtifactKind::Step, &world.direct(), &b"\0asm evil"[..], None).await.unwrap();
    let raw = world.client.fetch_manifest(&evil, 1 << 20).await.unwrap();
    let answer = Misbehaviour::Answer(raw.media_type, raw.content.to_vec());
    world.proxy.misbehave(&format!("manifests/{}", reference.digest), answer);
    let error = world.get(&reference).await.unwrap_err();
    for digest in [reference.digest, evil.digest] {
        assert!(error.to_string().contains(&digest.to_string()), "{error}");
    }
    assert_eq!(verdict(&reference, Err(error)), Verdict::Malformed);
}

#[tokio::test]
async fn changed_bytes_in_the_store_are_fetched_again_or_missed() {
    let mut world = World::new().await;
    let reference = world.publish().await;
    world.get(&reference).await.unwrap();
    let layer = Digest::of(WASM);
    for changed in [layer, reference.digest] {
        let path = world.stored(&changed);
        let mut content = fs::read(&path).unwrap();
        content[10] ^= 1;
        fs::write(&path, content).unwrap();
        assert_eq!(world.get(&reference).await.unwrap().content, WASM);
        assert_eq!(Digest::of(&fs::read(&path).unwrap()), changed, "the store was not mended");
    }
    fs::write(world.stored(&layer), b"\0asm evil").unwrap();
    world.registry.stop();
    assert_eq!(verdict(&reference, world.get(&reference).await), Verdict::Unavailable);
    assert!(!world.stored(&layer).exists(), "the changed blob stayed");
}

#[tokio::test]
async fn a_link_in_the_store_is_not_followed() {
    let world = World::new().await;
    let reference = world.publish().await;
    world.get(&reference).await.unwrap();
    let (path, elsewhere) = (world.stored(&Digest::of(WASM)), world.home.path().join("elsewhere"));
    fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    assert_eq!(world.get(&reference).await.unwrap().content, WASM);
    assert!(fs::symlink_metadata(&path).unwrap().is_file(), "the link stayed");
    assert!(elsewhere.exists());
}

#[tokio::test]
async fn signatures_planted_in_the_store_are_worth_nothing() {
    let world = World::new().await;
    let reference = world.push().await;
    let evil = SigningKey::generate().unwrap();
    world.client.sign(&world.direct().at(reference.digest), &evil).await.unwrap();
    // The attacker's own host accepts it, so its store holds everything.
    world.supplier_trusting(&evil).artifact(ArtifactKind::Step, &reference).await.unwrap();
    assert_eq!(verdict(&reference, world.get(&reference).await), Verdict::Untrusted);
    let kept = world.home.path().join(format!("signatures/sha256/{}.json", reference.digest.hex()));
    fs::write(&kept, b"{}").unwrap();
    assert_eq!(verdict(&reference, world.get(&reference).await), Verdict::Untrusted);
    assert!(!kept.exists());
}

/// The parts of a good step, to spoil one at a time.
async fn good_manifest(world: &World) -> Value {
    let reference = world.publish().await;
    let raw = world.client.fetch_manifest(&reference, 1 << 20).await.unwrap();
    serde_json::from_slice(&raw.content).unwrap()
}

#[tokio::test]
async fn a_signed_manifest_that_breaks_a_rule_is_malformed() {
    let world = World::new().await;
    let good = good_manifest(&world).await;
    let layer = good["layers"][0].clone();
    let spoil = |pointer: &str, value: Value| {
        let mut manifest = good.clone();
        let (parent, member) = pointer.rsplit_once('/').unwrap();
        manifest.pointer_mut(parent).unwrap()[member] = value;
        manifest.to_string()
    };
    let index =
        json!({ "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [layer] });
    let both = spoil("/manifests", json!([]));
    let twice = good.to_string().replacen("\"layers\":", "\"layers\":[],\"layers\":", 1);
    let definition = json!("application/vnd.fettle.definition.v1+json");
    for (manifest, expected) in [
        (index.to_string(), "index of several manifests"),
        (both, "index of several manifests"),
        (spoil("/mediaType", json!("application/vnd.docker.distribution.manifest.list.v2+json")), "index of several"),
        (spoil("/schemaVersion", json!(1)), "its manifest is `"),
        ("not a manifest".to_owned(), "cannot be read"),
        (twice, "duplicate field"),
        (spoil("/layers", json!([layer, layer])), "has 2 layers"),
        (spoil("/layers", json!([])), "has 0 layers"),
        (spoil("/layers/0/mediaType", json!("application/octet-stream")), "its layer is `application/octet-stream`"),
        (spoil("/layers/0/mediaType", definition), "its layer is `application/vnd.fettle.definition.v1+json`"),
        (spoil("/layers/0/urls", json!(["http://127.0.0.1:1/evil"])), "`urls` field"),
        (spoil("/config/urls", json!([])), "`urls` field"),
        (spoil("/layers/0/size", json!(65 << 20)), "larger than 67108864 bytes"),
        (spoil("/layers/0/size", json!(-1)), "its size is -1"),
        (spoil("/layers/0/size", json!(WASM.len() - 1)), "its layer is larger than"),
        (spoil("/layers/0/size", json!(WASM.len() + 1)), "instead of"),
        (spoil("/layers/0/digest", json!("sha512:00")), "is not a digest"),
        (spoil("/config/mediaType", json!("application/vnd.oci.image.config.v1+json")), "its configuration is `"),
        (spoil("/config/size", json!(2 << 20)), "its configuration is larger"),
        (spoil("/config", layer.clone()), "its configuration is `application/wasm`"),
    ] {
        let reference = world.serve_signed(manifest.into_bytes()).await;
        let error = world.get(&reference).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{expected}: {error}");
        assert_eq!(verdict(&reference, Err(error)), Verdict::Malformed);
        assert!(!world.stored(&reference.digest).exists(), "kept: {expected}");
    }
    // The list above means something only if the manifest it starts from is served.
    let reference = world.serve_signed(serde_json::to_vec_pretty(&good).unwrap()).await;
    world.get(&reference).await.unwrap();
}

#[tokio::test]
async fn an_artifact_of_one_kind_does_not_pass_as_another() {
    let world = World::new().await;
    let step = world.publish().await;
    let content = &b"{\"operation_type\":\"a\"}"[..];
    let definition = world.client.push(ArtifactKind::Definition, &world.direct(), content, None).await.unwrap();
    world.sign(definition.digest).await;
    for kind in ArtifactKind::ALL {
        for (own, reference) in [(ArtifactKind::Step, &step), (ArtifactKind::Definition, &definition)] {
            let result = world.supplier().artifact(kind, reference).await;
            if kind == own {
                result.unwrap();
            } else {
                assert_eq!(verdict(reference, result), Verdict::Malformed, "{own} as {kind}");
            }
        }
    }
}

#[tokio::test]
async fn a_document_in_another_byte_form_is_refused_on_both_sides() {
    let world = World::new().await;
    let kind = ArtifactKind::Catalog;
    for content in [&b"{ }"[..], b"{\"b\":1,\"a\":2}", b"{\"a\":1,\"a\":1}", b"{\"a\":1.0}", b"{", b"{}\n"] {
        let error = world.client.push(kind, &world.direct(), content, None).await.unwrap_err();
        assert_eq!(error.verdict(), Some(Verdict::Malformed), "{error}");
    }
    let good = world.client.push(kind, &world.direct(), &b"{}"[..], None).await.unwrap();
    let raw = world.client.fetch_manifest(&good, 1 << 20).await.unwrap();
    let mut manifest: Value = serde_json::from_slice(&raw.content).unwrap();
    let sloppy = b"{ }";
    manifest["layers"][0]["digest"] = json!(Digest::of(sloppy));
    manifest["layers"][0]["size"] = json!(sloppy.len());
    fs::create_dir_all(world.stored(&Digest::of(sloppy)).parent().unwrap()).unwrap();
    let supplier = world.supplier();
    supplier.store().write(sloppy.to_vec().into()).await.unwrap();
    let reference = world.serve_signed(manifest.to_string().into_bytes()).await;
    let error = supplier.artifact(kind, &reference).await.unwrap_err();
    assert!(error.to_string().contains("not canonical JSON"), "{error}");
}

#[tokio::test]
async fn a_configuration_for_another_component_is_refused() {
    let world = World::new().await;
    let mut manifest = good_manifest(&world).await;
    let other = world.client.push(ArtifactKind::Step, &world.direct(), &b"\0asm other"[..], None).await.unwrap();
    let raw = world.client.fetch_manifest(&other, 1 << 20).await.unwrap();
    manifest["config"] = serde_json::from_slice::<Value>(&raw.content).unwrap()["config"].clone();
    let reference = world.serve_signed(manifest.to_string().into_bytes()).await;
    let error = world.get(&reference).await.unwrap_err();
    assert!(error.to_string().contains("does not name the layer"), "{error}");
}

#[tokio::test]
async fn content_over_the_limit_is_refused_before_it_is_pushed() {
    let world = World::new().await;
    let large = format!("\"{}\"", "a".repeat(1 << 20));
    let error = world.client.push(ArtifactKind::Definition, &world.direct(), large, None).await.unwrap_err();
    assert!(error.to_string().contains("larger than 1048576 bytes"), "{error}");
}

#[tokio::test]
async fn the_same_content_has_the_same_reference_and_one_signature_per_key() {
    let world = World::new().await;
    let first = world.publish().await;
    let second = world.publish().await;
    assert_eq!(first, second);
    assert_eq!(world.client.fetch_signatures(&first).await.unwrap().len(), 1);
}
