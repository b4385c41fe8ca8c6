//! Signatures as cosign attaches them: a "simple signing" payload that names a manifest's digest, and
//! a signature over the payload's bytes.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use fettle_model::{canonical, digest::Digest, reference::Reference};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Rejection, Signed, Signer, TrustedRoot};
use crate::{
    error::{Defect, SupplyError},
    key::{KeyError, PublicKey, SigningKey},
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
    #[serde(with = "base64_text")]
    signature: Vec<u8>,
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
    /// Signs an artifact.
    pub(crate) fn make(reference: &Reference, key: &SigningKey) -> Result<Self, SupplyError> {
        let failed = |source| SupplyError::Signing { artifact: reference.to_string(), source };
        let payload = canonical::to_bytes(&json!({
            "critical": {
                "identity": { "docker-reference": reference.repository },
                "image": { "docker-manifest-digest": reference.digest },
                "type": PAYLOAD_TYPE,
            },
            "optional": null,
        }))
        .map_err(|error| failed(std::sync::Arc::new(error)))?;
        let signature = key.sign(&payload).map_err(|error: KeyError| failed(std::sync::Arc::new(error)))?;
        Ok(Self { payload, signature })
    }

    /// Takes a payload layer and its annotation.
    pub(crate) fn read(payload: &[u8], annotation: &str) -> Result<Self, Defect> {
        let signature = STANDARD.decode(annotation).map_err(|error| {
            Defect::Signature(format!("the annotation `{SIGNATURE_ANNOTATION}` is not base64: {error}"))
        })?;
        Ok(Self { payload: payload.to_vec(), signature })
    }

    /// The bytes that are signed.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The annotation's text.
    pub(crate) fn annotation(&self) -> String {
        STANDARD.encode(&self.signature)
    }

    /// See [`super::Evidence::statement_by`].
    pub(super) fn statement_by(
        &self,
        artifact: Digest,
        keys: &[PublicKey],
        _root: Option<&TrustedRoot>,
    ) -> Result<Signed, Rejection> {
        // The payload is parsed only after a key has vouched for its bytes.
        let by = |key: &&PublicKey| key.verifies(&self.payload, &self.signature);
        let key = keys.iter().find(by).ok_or_else(|| Rejection::OtherSigner(String::new()))?;
        let signer = Signer::Key(key.id());
        let (subject, annotations) = self.read_payload()?;
        if subject != artifact && !off(Protection::SubjectIsTheArtifact) {
            let signer = Box::new(signer);
            return Err(Rejection::OtherSubject { signer, signed: subject.to_string() });
        }
        Ok(Signed { signer, annotations, integrated_time: None })
    }

    /// What the payload says was signed, and the annotations.
    fn read_payload(&self) -> Result<(Digest, BTreeMap<String, String>), Rejection> {
        let payload: Payload = serde_json::from_slice(&self.payload)
            .map_err(|error| Rejection::Unreadable(format!("its payload is no simple-signing payload: {error}")))?;
        if payload.critical.form != PAYLOAD_TYPE {
            let found = payload.critical.form;
            return Err(Rejection::Unreadable(format!("its payload is a `{found}`, not a `{PAYLOAD_TYPE}`")));
        }
        // Other tools put numbers here, too (skopeo the time of day).
        let text = |(name, value)| match value {
            Value::String(text) => (name, text),
            other => (name, other.to_string()),
        };
        let annotations = payload.optional.unwrap_or_default().into_iter().map(text).collect();
        Ok((payload.critical.image.digest, annotations))
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
