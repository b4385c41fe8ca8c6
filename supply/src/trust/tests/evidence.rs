//! Signatures as they are fetched, to a verdict.

use std::collections::BTreeMap;

use fettle_model::reference::Reference;
use serde_json::json;

use super::reference;
use crate::{
    error::Verdict,
    key::SigningKey,
    kind::ArtifactKind,
    signature::{CosignSignature, Evidence},
    trust::{Seen, TrustPolicy},
};

fn made(reference: &Reference, key: &SigningKey) -> Evidence {
    CosignSignature::make(reference, &BTreeMap::new(), key).unwrap().into()
}

fn forged(payload: &serde_json::Value, key: &SigningKey) -> Evidence {
    forged_bytes(&serde_json::to_vec(payload).unwrap(), key)
}

fn forged_bytes(payload: &[u8], key: &SigningKey) -> Evidence {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let annotation = STANDARD.encode(key.sign(payload).unwrap());
    CosignSignature::read(payload, &BTreeMap::from([("dev.cosignproject.cosign/signature".to_owned(), annotation)]))
        .unwrap()
        .into()
}

fn payload(digest: &str) -> serde_json::Value {
    json!({
        "critical": {
            "identity": { "docker-reference": "127.0.0.1:5000/steps/render" },
            "image": { "docker-manifest-digest": digest },
            "type": "cosign container image signature",
        },
        "optional": null,
    })
}

#[test]
fn each_kind_of_bad_signature_has_its_verdict() {
    let (trusted, other) = (SigningKey::generate().unwrap(), SigningKey::generate().unwrap());
    let policy = TrustPolicy::any_of([("trusted".to_owned(), trusted.public().clone())]).unwrap();
    let this = reference("this");
    let digest = this.digest.to_string();
    let elsewhere = reference("that").digest.to_string();
    let good = made(&this, &trusted);
    let by_other = made(&this, &other);
    let of_another = CosignSignature::make(&reference("that"), &BTreeMap::new(), &trusted).unwrap();
    let mut wrong_type = payload(&digest);
    wrong_type["critical"]["type"] = json!("atomic container signature");
    let mut extra = payload(&digest);
    extra["critical"]["image"]["other"] = json!(1);
    // A payload of the attacker's with a true signature of something else.
    let moved =
        CosignSignature::read(&serde_json::to_vec(&payload(&digest)).unwrap(), &of_another.annotations()).unwrap();
    let (moved, of_another) = (Evidence::from(moved), Evidence::from(of_another));
    let twice = format!(
        r#"{{"critical":{{"identity":{{"docker-reference":"a"}},"image":{{"docker-manifest-digest":"{elsewhere}","docker-manifest-digest":"{digest}"}},"type":"cosign container image signature"}},"optional":null}}"#
    );
    let bad = |signature: &Evidence| vec![signature.clone()];
    for (name, signatures, expected) in [
        ("none", vec![], Err(Verdict::Unsigned)),
        ("by another key", bad(&by_other), Err(Verdict::Untrusted)),
        ("of another digest", bad(&of_another), Err(Verdict::Untrusted)),
        ("another payload under a true signature", bad(&moved), Err(Verdict::Untrusted)),
        ("forged type", bad(&forged(&wrong_type, &trusted)), Err(Verdict::Malformed)),
        ("unknown field", bad(&forged(&extra, &trusted)), Err(Verdict::Malformed)),
        ("a field twice", bad(&forged_bytes(twice.as_bytes(), &trusted)), Err(Verdict::Malformed)),
        ("no JSON", bad(&forged_bytes(b"this digest is fine", &trusted)), Err(Verdict::Malformed)),
        ("two halves of a good one", vec![by_other.clone(), of_another.clone()], Err(Verdict::Untrusted)),
        ("good", bad(&good), Ok(())),
        ("good after bad ones", vec![forged(&wrong_type, &trusted), by_other, of_another, good], Ok(())),
    ] {
        let result = policy.verify(ArtifactKind::Step, &this, &signatures, None, &Seen::new());
        assert_eq!(result.as_ref().map(|_| ()).map_err(|error| error.verdict().unwrap()), expected, "{name}");
    }
}
