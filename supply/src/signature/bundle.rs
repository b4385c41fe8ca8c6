//! Sigstore bundles (v0.3): a signature with all that is needed to check it.
//!
//! By a key: the signature is checked directly, with no log. By an identity: certificate, log entry and
//! time are checked against a trusted root, offline.

use std::sync::Arc;

use fettle_model::digest::Digest;
use serde::{Deserialize, Serialize};
use sigstore_verify::{
    bundle::{BundleV03, VerificationMaterialV03},
    types::{
        Bundle as Text, DsseEnvelope, DsseSignature, HashAlgorithm, KeyId as NoKeyId, MediaType, PayloadBytes,
        SignatureBytes, SignatureContent,
        bundle::{MessageSignature, VerificationMaterialContent},
    },
};

use super::{
    Rejection, Signed, Signer, TrustedRoot, identity,
    statement::{PAYLOAD_TYPE, SIGN_PREDICATE, Statement, signed_bytes},
};
use crate::{
    error::SupplyError,
    key::{PublicKey, SigningKey},
    mutation::{Protection, off},
};

/// Media type of a bundle, and artifact type of the manifest that carries one.
pub(crate) const BUNDLE_MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// Largest bundle that is looked at as a signature, in bytes.
pub(crate) const BUNDLE_LIMIT: u64 = 64 << 10;

/// A bundle as it was fetched. Nothing in it is believed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Bundle {
    text: String,
}

/// What a bundle says, believed: the signature over it holds.
pub(crate) struct Vouched {
    /// Who signed.
    pub(crate) signer: Signer,
    /// What.
    pub(crate) what: What,
    /// When, if that is proven.
    pub(crate) time: Option<jiff::Timestamp>,
}

/// What was signed.
pub(crate) enum What {
    /// The artifact's manifest itself.
    Message(Digest),
    /// A statement about it.
    Statement(Statement),
}

impl Bundle {
    /// Takes the bytes of a bundle; they are read when it is checked.
    pub(crate) fn read(content: &[u8]) -> Result<Self, Rejection> {
        let text = String::from_utf8(content.to_vec());
        text.map(|text| Self { text }).map_err(|_| Rejection::Unreadable("it is not UTF-8 text".to_owned()))
    }

    /// Signs a statement with a key.
    pub(crate) fn make(artifact: &str, statement: &Statement, key: &SigningKey) -> Result<Self, SupplyError> {
        let failed = |source| SupplyError::Signing { artifact: artifact.to_owned(), source };
        let payload = statement.to_bytes().map_err(|error| failed(Arc::new(error)))?;
        let signature = key.sign(&signed_bytes(PAYLOAD_TYPE, &payload)).map_err(|error| failed(Arc::new(error)))?;
        let signature = DsseSignature::new(SignatureBytes::new(signature), NoKeyId::default());
        let envelope = DsseEnvelope::new(PAYLOAD_TYPE, PayloadBytes::new(payload), signature);
        // Where other tools look the key up.
        let hint = SignatureBytes::from_bytes(Digest::of(key.public().der()).as_bytes()).to_base64();
        let material = VerificationMaterialV03::PublicKey { hint };
        let bundle = BundleV03::new(material, SignatureContent::DsseEnvelope(envelope)).into_bundle();
        Ok(Self { text: bundle.to_json().map_err(|error| failed(Arc::new(error)))? })
    }

    /// The bundle's bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// Whether this says of itself that it is a statement of another kind than "signed", and so no
    /// signature. Only ever a reason to look at less.
    pub(crate) fn claims_other_predicate(&self) -> bool {
        let Ok(bundle) = Text::from_json(&self.text) else { return false };
        match claimed(&bundle.content) {
            Ok(What::Statement(statement)) => statement.predicate_type != SIGN_PREDICATE,
            Ok(What::Message(_)) | Err(_) => false,
        }
    }

    /// See [`super::Evidence::statement_by`].
    pub(super) fn statement_by(
        &self,
        artifact: Digest,
        keys: &[PublicKey],
        root: Option<&TrustedRoot>,
    ) -> Result<Signed, Rejection> {
        let Vouched { signer, what, time } = self.vouched(artifact, keys, root)?;
        let (subject, annotations) = match what {
            What::Message(digest) => (digest, std::collections::BTreeMap::new()),
            What::Statement(statement) if statement.predicate_type == SIGN_PREDICATE => {
                (statement.subject, statement.annotations)
            }
            What::Statement(Statement { predicate_type, .. }) => {
                let reason = format!("it is an attestation of the type `{predicate_type}`, not a signature");
                return Err(Rejection::Unreadable(reason));
            }
        };
        super::about(artifact, subject, &signer)?;
        Ok(Signed { signer, annotations, integrated_time: time })
    }

    /// Checks who signed this. What it says is about any artifact; `artifact` is only what a signature
    /// that names none is taken to be over.
    pub(crate) fn vouched(
        &self,
        artifact: Digest,
        keys: &[PublicKey],
        root: Option<&TrustedRoot>,
    ) -> Result<Vouched, Rejection> {
        let unreadable = |reason: String| Rejection::Unreadable(reason);
        let bundle = Text::from_json(&self.text).map_err(|error| unreadable(format!("it is no bundle: {error}")))?;
        if bundle.media_type != MediaType::Bundle0_3 && !off(Protection::BundleIsOfKnownVersion) {
            return Err(unreadable(format!("it is a `{}`, not a `{BUNDLE_MEDIA_TYPE}`", bundle.media_type)));
        }
        match &bundle.verification_material.content {
            VerificationMaterialContent::PublicKey(_) => by_key(&bundle.content, artifact, keys),
            VerificationMaterialContent::Certificate(_) => {
                let root = root.ok_or(Rejection::NoTrustedRoot)?;
                // What it claims to be about is parsed only to be checked, and means nothing before.
                let what = claimed(&bundle.content)?;
                let subject = match &what {
                    What::Message(digest) => *digest,
                    What::Statement(statement) => statement.subject,
                };
                let proven = identity::prove(root, &bundle, subject)?;
                Ok(Vouched { signer: proven.signer, what, time: proven.time })
            }
            other => {
                let _ = other;
                Err(unreadable("it has neither one certificate nor a key".to_owned()))
            }
        }
    }
}

fn by_key(content: &SignatureContent, artifact: Digest, keys: &[PublicKey]) -> Result<Vouched, Rejection> {
    let nobody = || Rejection::OtherSigner(String::new());
    match content {
        SignatureContent::DsseEnvelope(envelope) => {
            let signed = signed_bytes(&envelope.payload_type, envelope.payload.as_bytes());
            let signature = envelope.signature.sig.as_bytes();
            let key = keys.iter().find(|key| key.verifies(&signed, signature)).ok_or_else(nobody)?;
            let statement = read(envelope)?;
            Ok(Vouched { signer: Signer::Key(key.id()), what: What::Statement(statement), time: None })
        }
        SignatureContent::MessageSignature(message) => {
            let digest = message_digest(message)?.unwrap_or(artifact);
            let signature = message.signature.as_bytes();
            let key = keys.iter().find(|key| key.verifies_digest(digest, signature)).ok_or_else(nobody)?;
            Ok(Vouched { signer: Signer::Key(key.id()), what: What::Message(digest), time: None })
        }
        _ => Err(Rejection::Unreadable("it holds neither a signature of a message nor an envelope".to_owned())),
    }
}

fn claimed(content: &SignatureContent) -> Result<What, Rejection> {
    match content {
        SignatureContent::DsseEnvelope(envelope) => read(envelope).map(What::Statement),
        SignatureContent::MessageSignature(message) => {
            let named = message_digest(message)?;
            let missing = || Rejection::Unreadable("it names no digest of what was signed".to_owned());
            named.map(What::Message).ok_or_else(missing)
        }
        _ => Err(Rejection::Unreadable("it holds neither a signature of a message nor an envelope".to_owned())),
    }
}

fn read(envelope: &DsseEnvelope) -> Result<Statement, Rejection> {
    if envelope.payload_type != PAYLOAD_TYPE {
        let found = &envelope.payload_type;
        return Err(Rejection::Unreadable(format!("its envelope holds `{found}`, not `{PAYLOAD_TYPE}`")));
    }
    Statement::read(envelope.payload.as_bytes()).map_err(Rejection::Unreadable)
}

fn message_digest(message: &MessageSignature) -> Result<Option<Digest>, Rejection> {
    let Some(named) = &message.message_digest else { return Ok(None) };
    let bytes = <[u8; 32]>::try_from(named.digest.as_bytes()).ok();
    match (named.algorithm, bytes) {
        (HashAlgorithm::Sha2256, Some(bytes)) => Ok(Some(Digest::from_bytes(bytes))),
        _ => Err(Rejection::Unreadable("the digest of what was signed is no SHA-256".to_owned())),
    }
}
