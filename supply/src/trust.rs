//! Whose signatures count, per kind of artifact.

use fettle_model::{document, reference::Reference};
use serde::{Deserialize, Serialize};

use crate::{
    error::{Defect, Distrust, SupplyError},
    key::{KeyId, PublicKey},
    kind::ArtifactKind,
    signature::{self, Evidence, Rejection},
};

/// An administrator's decision on whose signatures count. A kind that is absent is trusted from
/// nobody.
///
/// ```yaml
/// step:
///   anyOf:
///     - kind: publicKey
///       name: platform-team
///       key: |
///         -----BEGIN PUBLIC KEY-----
///         ...
///         -----END PUBLIC KEY-----
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustPolicy {
    /// Who may sign steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<Requirement>,
    /// Who may sign catalogs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    catalog: Option<Requirement>,
    /// Who may sign operation definitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    definition: Option<Requirement>,
    /// Who may sign policy bundles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy_bundle: Option<Requirement>,
}

/// Which signers suffice for one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Requirement {
    /// One of these suffices.
    #[serde(rename = "anyOf")]
    any_of: Vec<Signer>,
}

/// One signer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", deny_unknown_fields)]
enum Signer {
    /// Whoever holds the private half of a key.
    PublicKey {
        /// For messages and audit.
        name: String,
        /// PEM.
        key: PublicKey,
    },
}

/// Why a trust policy is refused.
#[derive(Debug, thiserror::Error)]
pub enum TrustPolicyError {
    /// It cannot be read.
    #[error("the trust policy cannot be read: {0}")]
    Document(#[source] document::DocumentError),
    /// It names no kind.
    #[error(
        "the trust policy names no signer for any kind; add at least one of `step`, `catalog`, `definition`, `policy_bundle`"
    )]
    Empty,
    /// A kind without signers: it would be unclear whether all or none is meant.
    #[error(
        "the trust policy has an empty list of signers for `{0}`; name a signer, or leave the kind out to trust nobody"
    )]
    NoSigner(&'static str),
    /// One signer twice.
    #[error("the trust policy names the key of `{second}` for `{kind}` already as `{first}`; name each key once")]
    Twice {
        /// Which kind.
        kind: &'static str,
        /// The earlier name.
        first: String,
        /// The later name.
        second: String,
    },
}

impl TrustPolicy {
    /// Reads YAML or JSON text.
    ///
    /// # Errors
    /// When it has another form, unknown fields, no signers, or one signer twice for one kind.
    pub fn read(text: &str) -> Result<Self, TrustPolicyError> {
        let policy: Self = document::read(text).map_err(TrustPolicyError::Document)?;
        policy.check()?;
        Ok(policy)
    }

    /// The same named keys for all kinds.
    ///
    /// # Errors
    /// When there are none, or one twice.
    pub fn any_of(keys: impl IntoIterator<Item = (String, PublicKey)>) -> Result<Self, TrustPolicyError> {
        let any_of = keys.into_iter().map(|(name, key)| Signer::PublicKey { name, key }).collect();
        let all = Some(Requirement { any_of });
        let policy = Self { step: all.clone(), catalog: all.clone(), definition: all.clone(), policy_bundle: all };
        policy.check()?;
        Ok(policy)
    }

    fn check(&self) -> Result<(), TrustPolicyError> {
        if ArtifactKind::ALL.iter().all(|kind| self.requirement(*kind).is_none()) {
            return Err(TrustPolicyError::Empty);
        }
        for kind in ArtifactKind::ALL {
            let Some(Requirement { any_of }) = self.requirement(kind) else { continue };
            if any_of.is_empty() {
                return Err(TrustPolicyError::NoSigner(kind.name()));
            }
            for (index, Signer::PublicKey { name, key }) in any_of.iter().enumerate() {
                let same = |signer: &&Signer| matches!(signer, Signer::PublicKey { key: other, .. } if other == key);
                if let Some(Signer::PublicKey { name: first, .. }) = any_of.iter().take(index).find(same) {
                    let (first, second) = (first.clone(), name.clone());
                    return Err(TrustPolicyError::Twice { kind: kind.name(), first, second });
                }
            }
        }
        Ok(())
    }

    const fn requirement(&self, kind: ArtifactKind) -> Option<&Requirement> {
        match kind {
            ArtifactKind::Step => self.step.as_ref(),
            ArtifactKind::Catalog => self.catalog.as_ref(),
            ArtifactKind::Definition => self.definition.as_ref(),
            ArtifactKind::PolicyBundle => self.policy_bundle.as_ref(),
        }
    }

    /// Finds a signature that suffices for an artifact.
    ///
    /// # Errors
    /// `Unsigned` without signatures, `Untrusted` when none is by a trusted key over this digest,
    /// `Malformed` when the only ones by trusted keys cannot be read.
    pub fn verify(
        &self,
        kind: ArtifactKind,
        reference: &Reference,
        signatures: &[Evidence],
    ) -> Result<KeyId, SupplyError> {
        let artifact = reference.to_string();
        let Some(Requirement { any_of }) = self.requirement(kind) else {
            return Err(SupplyError::Untrusted { artifact, reason: Distrust::KindNotTrusted(kind) });
        };
        if signatures.is_empty() {
            return Err(SupplyError::Unsigned { artifact, kind });
        }
        let keys: Vec<PublicKey> = any_of.iter().map(|Signer::PublicKey { key, .. }| key.clone()).collect();
        let mut nearest: Option<SupplyError> = None;
        for evidence in signatures {
            match evidence.statement_by(reference.digest, &keys, None) {
                Ok(signed) => match signed.signer {
                    signature::Signer::Key(key) => return Ok(key),
                    signature::Signer::Identity { .. } => {}
                },
                Err(Rejection::OtherSubject { signer, signed }) => {
                    let by = |one: &&Signer| matches!(one, Signer::PublicKey { key, .. } if signature::Signer::Key(key.id()) == *signer);
                    let signer = any_of
                        .iter()
                        .find(by)
                        .map_or_else(|| signer.to_string(), |Signer::PublicKey { name, .. }| name.clone());
                    let reason = Distrust::OtherDigest { signer, signed };
                    nearest = Some(SupplyError::Untrusted { artifact: artifact.clone(), reason });
                }
                Err(Rejection::Unreadable(reason)) => {
                    nearest = nearest.or_else(|| Some(malformed(&artifact, Defect::Signature(reason))));
                }
                Err(Rejection::OtherSigner(_) | Rejection::NoTrustedRoot | Rejection::Unproven(_)) => {}
            }
        }
        Err(nearest.unwrap_or_else(|| {
            let trusted = any_of.iter().map(Signer::shown).collect::<Vec<_>>().join(", ");
            let reason = Distrust::OtherKeys { kind, signatures: signatures.len(), trusted };
            SupplyError::Untrusted { artifact, reason }
        }))
    }
}

fn malformed(artifact: &str, reason: Defect) -> SupplyError {
    SupplyError::Malformed { artifact: artifact.to_owned(), reason }
}

impl Signer {
    fn shown(&self) -> String {
        let Self::PublicKey { name, key } = self;
        format!("`{name}` ({})", key.id())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fettle_model::{digest::Digest, reference::Reference};
    use serde_json::json;

    use super::*;
    use crate::{error::Verdict, key::SigningKey, signature::CosignSignature};

    fn reference(content: &str) -> Reference {
        format!("127.0.0.1:5000/steps/render@{}", Digest::of(content.as_bytes())).parse().unwrap()
    }

    fn policy(keys: &[&SigningKey]) -> TrustPolicy {
        let named = |(index, key): (usize, &&SigningKey)| (format!("key-{index}"), key.public().clone());
        TrustPolicy::any_of(keys.iter().enumerate().map(named)).unwrap()
    }

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
        let policy = policy(&[&trusted]);
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
            let result = policy.verify(ArtifactKind::Step, &this, &signatures);
            assert_eq!(result.as_ref().map(|_| ()).map_err(|error| error.verdict().unwrap()), expected, "{name}");
        }
    }

    #[test]
    fn any_one_of_the_keys_suffices_and_is_named() {
        let keys = [SigningKey::generate().unwrap(), SigningKey::generate().unwrap()];
        let policy = policy(&[&keys[0], &keys[1]]);
        let this = reference("this");
        for key in &keys {
            let signature = made(&this, key);
            assert_eq!(policy.verify(ArtifactKind::Step, &this, &[signature]).unwrap(), key.public().id());
        }
    }

    #[test]
    fn trust_in_one_kind_is_not_trust_in_another() {
        let key = SigningKey::generate().unwrap();
        let text = json!({ "definition": { "anyOf": [{ "kind": "publicKey", "name": "team", "key": key.public() }] } });
        let policy = TrustPolicy::read(&text.to_string()).unwrap();
        let this = reference("this");
        let signature = made(&this, &key);
        assert!(policy.verify(ArtifactKind::Definition, &this, std::slice::from_ref(&signature)).is_ok());
        let error = policy.verify(ArtifactKind::Step, &this, &[signature]).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "UNTRUSTED: {this} is of the kind `step`, for which the trust policy names no key; add one under `step`"
            )
        );
    }

    #[test]
    fn a_policy_that_could_be_read_as_allow_all_is_refused() {
        let key = SigningKey::generate().unwrap();
        let one = json!({ "kind": "publicKey", "name": "a", "key": key.public() });
        let other_name = json!({ "kind": "publicKey", "name": "b", "key": key.public() });
        for (text, expected) in [
            (json!({}), "names no signer for any kind"),
            (json!({ "step": { "anyOf": [] } }), "empty list of signers for `step`"),
            (json!({ "step": {} }), "missing field `anyOf`"),
            (json!({ "step": null }), "names no signer for any kind"),
            (json!({ "step": { "anyOf": [one], "minimumMatches": 0 } }), "unknown field `minimumMatches`"),
            (json!({ "steps": { "anyOf": [one] } }), "unknown field `steps`"),
            (json!({ "step": { "anyOf": [one, other_name] } }), "already as `a`"),
            (
                json!({ "step": { "anyOf": [{ "kind": "publicKey", "name": "a", "key": "" }] } }),
                "public key cannot be read",
            ),
            (json!({ "step": { "anyOf": [{ "kind": "anyone" }] } }), "unknown variant `anyone`"),
        ] {
            let error = TrustPolicy::read(&text.to_string()).unwrap_err();
            let shown = format!("{error}");
            assert!(shown.contains(expected), "{text}: {shown}");
        }
        assert!(matches!(TrustPolicy::any_of([]), Err(TrustPolicyError::NoSigner("step"))));
    }
}
