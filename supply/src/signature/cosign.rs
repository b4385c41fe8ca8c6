//! Signatures as cosign attaches them: a "simple signing" payload that names a manifest's digest, and
//! a signature over the payload's bytes; for an identity also a certificate and a log entry.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use fettle_model::{canonical, digest::Digest, reference::Reference};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Rejection, Signed, Signer, TrustedRoot, keyless, statement::texts};
use crate::{
    error::SupplyError,
    key::{PublicKey, SigningKey},
    mutation::{Protection, off},
};

/// Media type of the payload layer.
pub(crate) const PAYLOAD_MEDIA_TYPE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// Annotation of the payload layer that holds the signature.
pub(crate) const SIGNATURE_ANNOTATION: &str = "dev.cosignproject.cosign/signature";
/// Largest payload, in bytes.
pub(crate) const PAYLOAD_LIMIT: u64 = 64 << 10;

const PAYLOAD_TYPE: &str = "cosign container image signature";

/// One payload layer, not yet believed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CosignSignature {
    #[serde(with = "base64_text")]
    payload: Vec<u8>,
    /// Base64, as it was annotated.
    signature: String,
    /// The other annotations that prove something, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    proofs: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Payload {
    critical: Critical,
    optional: Option<BTreeMap<String, Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Critical {
    #[expect(dead_code, reason = "where it was signed; a mirror keeps the signature, so the digest decides")]
    identity: Identity,
    image: Image,
    #[serde(rename = "type")]
    form: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Identity {
    #[serde(rename = "docker-reference")]
    #[expect(dead_code, reason = "see `Critical::identity`")]
    reference: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: Digest,
}

impl CosignSignature {
    /// Signs an artifact, with annotations.
    pub(crate) fn make(
        reference: &Reference,
        annotations: &BTreeMap<String, String>,
        key: &SigningKey,
    ) -> Result<Self, SupplyError> {
        let failed = |source| SupplyError::Signing { artifact: reference.to_string(), source };
        let optional = if annotations.is_empty() { Value::Null } else { json!(annotations) };
        let payload = canonical::to_bytes(&json!({
            "critical": {
                // With the digest, because skopeo's default policy does not accept a name alone.
                "identity": { "docker-reference": reference },
                "image": { "docker-manifest-digest": reference.digest },
                "type": PAYLOAD_TYPE,
            },
            "optional": optional,
        }))
        .map_err(|error| failed(Arc::new(error)))?;
        let signature = key.sign(&payload).map_err(|error| failed(Arc::new(error)))?;
        Ok(Self { payload, signature: STANDARD.encode(signature), proofs: BTreeMap::new() })
    }

    /// Takes a payload layer and its annotations, if one of them is a signature.
    pub(crate) fn read(payload: &[u8], annotations: &BTreeMap<String, String>) -> Option<Self> {
        let signature = annotations.get(SIGNATURE_ANNOTATION)?.clone();
        let known = |(name, _): &(&String, &String)| {
            keyless::ANNOTATIONS.contains(&name.as_str()) || off(Protection::AnnotationsAreSigned)
        };
        let proofs = annotations.iter().filter(known).map(|(name, value)| (name.clone(), value.clone())).collect();
        Some(Self { payload: payload.to_vec(), signature, proofs })
    }

    /// The bytes that are signed.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The annotations of the payload layer.
    pub(crate) fn annotations(&self) -> BTreeMap<String, String> {
        let mut annotations = self.proofs.clone();
        annotations.insert(SIGNATURE_ANNOTATION.to_owned(), self.signature.clone());
        annotations
    }

    /// See [`super::Evidence::statement_by`].
    pub(super) fn statement_by(
        &self,
        artifact: Digest,
        keys: &[PublicKey],
        root: Option<&TrustedRoot>,
    ) -> Result<Signed, Rejection> {
        let signature = STANDARD.decode(&self.signature).map_err(|error| {
            Rejection::Unreadable(format!("the annotation `{SIGNATURE_ANNOTATION}` is not base64: {error}"))
        })?;
        // The payload is parsed only after somebody has vouched for its bytes.
        let (signer, integrated_time) = match keys.iter().find(|key| key.verifies(&self.payload, &signature)) {
            Some(key) => (Signer::Key(key.id()), None),
            None if self.proofs.contains_key(keyless::CERTIFICATE_ANNOTATION) => {
                let root = root.ok_or(Rejection::NoTrustedRoot)?;
                keyless::prove(root, &self.payload, &signature, &self.proofs)?
            }
            None => return Err(Rejection::OtherSigner(String::new())),
        };
        let (subject, mut annotations) = self.read_payload()?;
        if off(Protection::AnnotationsAreSigned) {
            annotations.extend(self.proofs.clone());
        }
        super::about(artifact, subject, &signer)?;
        Ok(Signed { signer, annotations, integrated_time })
    }

    /// What the payload says was signed, and the annotations.
    fn read_payload(&self) -> Result<(Digest, BTreeMap<String, String>), Rejection> {
        let payload: Payload = serde_json::from_slice(&self.payload)
            .map_err(|error| Rejection::Unreadable(format!("its payload is no simple-signing payload: {error}")))?;
        if payload.critical.form != PAYLOAD_TYPE {
            let found = payload.critical.form;
            return Err(Rejection::Unreadable(format!("its payload is a `{found}`, not a `{PAYLOAD_TYPE}`")));
        }
        Ok((payload.critical.image.digest, texts(payload.optional.unwrap_or_default())))
    }
}

/// The tag at which a digest's signatures are.
pub(crate) fn tag(digest: &Digest) -> String {
    format!("sha256-{}.sig", digest.hex())
}

mod base64_text {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
