//! Keyless cosign signatures: a payload layer whose annotations hold a certificate and a log entry.
//!
//! They are put into the form of a bundle and checked as one, so that the payload's signature is checked
//! with the certificate's own key, and the log entry has to be about this payload and this signature.

use std::collections::BTreeMap;

use fettle_model::digest::Digest;
use jiff::Timestamp;
use serde::Deserialize;
use sigstore_verify::types::{
    Bundle, CanonicalizedBody, DerCertificate, DigestBytes, HashAlgorithm, LogIndex, LogKeyId, MediaType,
    SignatureBytes, SignatureContent, SignedTimestamp, TimestampToken,
    bundle::{
        InclusionPromise, KindVersion, LogId, MessageDigest, MessageSignature, Rfc3161Timestamp,
        TimestampVerificationData, TransparencyLogEntry, VerificationMaterial, VerificationMaterialContent,
        X509Certificate,
    },
};

use super::{Rejection, Signer, TrustedRoot, identity};

/// Annotation with the certificate, in PEM.
pub(super) const CERTIFICATE_ANNOTATION: &str = "dev.sigstore.cosign/certificate";
const CHAIN_ANNOTATION: &str = "dev.sigstore.cosign/chain";
const LOG_ANNOTATION: &str = "dev.sigstore.cosign/bundle";
const TIME_ANNOTATION: &str = "dev.sigstore.cosign/rfc3161timestamp";

/// All annotations that prove something.
pub(super) const ANNOTATIONS: [&str; 4] = [CERTIFICATE_ANNOTATION, CHAIN_ANNOTATION, LOG_ANNOTATION, TIME_ANNOTATION];

/// A log's promise to include an entry, as Rekor v1 answers.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LogPromise {
    signed_entry_timestamp: String,
    payload: LogPayload,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogPayload {
    body: String,
    integrated_time: i64,
    log_index: u64,
    #[serde(rename = "logID")]
    log_id: String,
}

#[derive(Deserialize)]
struct SignedTime {
    #[serde(rename = "SignedRFC3161Timestamp")]
    timestamp: String,
}

/// Checks who signed the payload.
pub(super) fn prove(
    root: &TrustedRoot,
    payload: &[u8],
    signature: &[u8],
    proofs: &BTreeMap<String, String>,
) -> Result<(Signer, Option<Timestamp>), Rejection> {
    let bundle = bundle(payload, signature, proofs).map_err(Rejection::Unreadable)?;
    let proven = identity::prove_message(root, &bundle, payload)?;
    Ok((proven.signer, proven.time))
}

fn bundle(payload: &[u8], signature: &[u8], proofs: &BTreeMap<String, String>) -> Result<Bundle, String> {
    let digest = MessageDigest::new(HashAlgorithm::Sha2256, DigestBytes::new(Digest::of(payload).as_bytes().to_vec()));
    let message = MessageSignature::new(SignatureBytes::from_bytes(signature)).with_message_digest(digest);
    let certificates = VerificationMaterialContent::X509CertificateChain { certificates: certificates(proofs)? };
    let mut material = VerificationMaterial::new(certificates);
    // The form with a promise; or that without an entry, which only a root without logs accepts.
    let mut form = MediaType::Bundle0_2;
    if let Some(text) = proofs.get(LOG_ANNOTATION) {
        material = material.with_tlog_entries(vec![log_entry(text)?]);
        form = MediaType::Bundle0_1;
    }
    if let Some(text) = proofs.get(TIME_ANNOTATION) {
        let time: SignedTime = read(TIME_ANNOTATION, text)?;
        let token = TimestampToken::from_base64(&time.timestamp).map_err(|error| wrong(TIME_ANNOTATION, &error))?;
        let times = TimestampVerificationData::new(vec![Rfc3161Timestamp::new(token)]);
        material = material.with_timestamp_verification_data(times);
    }
    Ok(Bundle::new(form, material, SignatureContent::MessageSignature(message)))
}

/// The signer's certificate, then those between it and the authority's.
fn certificates(proofs: &BTreeMap<String, String>) -> Result<Vec<X509Certificate>, String> {
    let mut all = Vec::new();
    for name in [CERTIFICATE_ANNOTATION, CHAIN_ANNOTATION] {
        let text = proofs.get(name).map(String::as_str).unwrap_or_default();
        for pem in text.split_inclusive("-----END CERTIFICATE-----").filter(|part| part.contains("-----BEGIN")) {
            let certificate = DerCertificate::from_pem(pem.trim()).map_err(|error| wrong(name, &error))?;
            all.push(X509Certificate::new(certificate));
        }
        if name == CERTIFICATE_ANNOTATION && all.len() != 1 {
            return Err(format!("the annotation `{name}` holds {} certificates instead of one", all.len()));
        }
    }
    Ok(all)
}

fn log_entry(text: &str) -> Result<TransparencyLogEntry, String> {
    let LogPromise { signed_entry_timestamp, payload } = read(LOG_ANNOTATION, text)?;
    let bad = |error: &dyn std::fmt::Display| wrong(LOG_ANNOTATION, error);
    let promise = SignedTimestamp::from_base64(&signed_entry_timestamp).map_err(|error| bad(&error))?;
    let body = CanonicalizedBody::from_base64(&payload.body).map_err(|error| bad(&error))?;
    let log = hex_bytes(&payload.log_id).ok_or_else(|| bad(&"its log's id is not hexadecimal"))?;
    let index = LogIndex::new(payload.log_index).map_err(|error| bad(&error))?;
    let time = Timestamp::from_second(payload.integrated_time).map_err(|error| bad(&error))?;
    let id = LogId::new(LogKeyId::from_bytes(&log));
    Ok(TransparencyLogEntry::new(index, id, KindVersion::HashedRekordV001, body)
        .with_integrated_time(time)
        .with_inclusion_promise(InclusionPromise::new(promise)))
}

fn read<'a, T: Deserialize<'a>>(name: &str, text: &'a str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| wrong(name, &error))
}

fn wrong(name: &str, error: &dyn std::fmt::Display) -> String {
    format!("the annotation `{name}` cannot be read: {error}")
}

fn hex_bytes(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}
