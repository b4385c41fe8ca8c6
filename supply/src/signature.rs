//! Signatures as cosign attaches them: a "simple signing" payload that names a manifest's digest, and
//! a signature over the payload's bytes.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use fettle_model::{canonical, digest::Digest, reference::Reference};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    error::{Defect, SupplyError},
    key::{KeyError, PublicKey, SigningKey},
};

/// Media type of the payload layer.
pub(crate) const PAYLOAD_MEDIA_TYPE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// Annotation of the payload layer that holds the signature.
pub(crate) const SIGNATURE_ANNOTATION: &str = "dev.cosignproject.cosign/signature";
/// Largest payload, in bytes.
pub(crate) const PAYLOAD_LIMIT: u64 = 64 << 10;
/// Most signatures looked at for one artifact.
pub(crate) const COUNT_LIMIT: usize = 64;

const PAYLOAD_TYPE: &str = "cosign container image signature";

/// One signature, not yet believed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttachedSignature {
    #[serde(with = "base64_text")]
    payload: Vec<u8>,
    #[serde(with = "base64_text")]
    signature: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Payload {
    critical: Critical,
    #[expect(dead_code, reason = "must be there, may say anything, and nothing depends on it")]
    optional: Value,
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

impl AttachedSignature {
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

    /// Whether this is a signature of `key` over the payload, whatever the payload says.
    #[must_use]
    pub fn is_by(&self, key: &PublicKey) -> bool {
        key.verifies(&self.payload, &self.signature)
    }

    /// What the payload says was signed. Means nothing before [`Self::is_by`] holds for a trusted key.
    pub(crate) fn subject(&self) -> Result<Digest, Defect> {
        let payload: Payload = serde_json::from_slice(&self.payload)
            .map_err(|error| Defect::Signature(format!("its payload is no simple-signing payload: {error}")))?;
        if payload.critical.form != PAYLOAD_TYPE {
            return Err(Defect::Signature(format!(
                "its payload is a `{}`, not a `{PAYLOAD_TYPE}`",
                payload.critical.form
            )));
        }
        Ok(payload.critical.image.digest)
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
