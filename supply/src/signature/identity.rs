//! Identities: whom a certificate names, proven against a trusted root, offline.

use fettle_model::digest::Digest;
use jiff::Timestamp;
use sigstore_verify::{
    VerificationPolicy,
    crypto::{CertificateInfo, parse_certificate_info},
    types::{Artifact, Bundle, Sha256Hash},
};

use super::{Rejection, Signer, TrustedRoot, Workflow};
use crate::mutation::{Protection, off};

/// Who signed, and when.
pub(super) struct Proven {
    pub(super) signer: Signer,
    pub(super) time: Option<Timestamp>,
}

/// Checks that the certificate chains to an authority of the root and was valid when a log or a
/// timestamp authority of the root saw the signature; that the root's logs saw certificate and
/// signature; and that the certificate's key made the signature over what has the digest `subject`.
pub(super) fn prove(root: &TrustedRoot, bundle: &Bundle, subject: Digest) -> Result<Proven, Rejection> {
    verify(root, bundle, Artifact::from(Sha256Hash::new(*subject.as_bytes())))
}

/// The same for a signature over bytes that are at hand.
pub(super) fn prove_message(root: &TrustedRoot, bundle: &Bundle, message: &[u8]) -> Result<Proven, Rejection> {
    verify(root, bundle, Artifact::from(message))
}

fn verify(root: &TrustedRoot, bundle: &Bundle, artifact: Artifact<'_>) -> Result<Proven, Rejection> {
    // Whether the identity is one that counts is the trust policy's business, not decided here.
    let mut policy = VerificationPolicy::any_identity();
    if off(Protection::IdentityIsProven) {
        return unproven(bundle);
    }
    if off(Protection::CertificateChains) {
        policy = policy.skip_certificate_chain();
    }
    if !root.has_certificate_logs() || off(Protection::CertificateIsLogged) {
        policy = policy.skip_sct();
    }
    if !root.has_signature_logs() || off(Protection::SignatureIsLogged) {
        policy = policy.skip_tlog_unsafe();
    }
    let result = root.verifier().verify(artifact, bundle, &policy);
    let result = result.map_err(|error| Rejection::Unproven(chain(&error)))?;
    let signer = result.certificate().and_then(signer).ok_or_else(nameless)?;
    let time = result.verified_timestamps().iter().min().copied();
    Ok(Proven { signer, time })
}

fn nameless() -> Rejection {
    Rejection::Unproven("its certificate does not name both a subject and the issuer of the identity".to_owned())
}

/// What a certificate says, taken at its word: what a test sees when nothing is proven.
fn unproven(bundle: &Bundle) -> Result<Proven, Rejection> {
    let certificate = bundle.signing_certificate().and_then(|it| parse_certificate_info(it).ok());
    Ok(Proven { signer: certificate.as_ref().and_then(signer).ok_or_else(nameless)?, time: None })
}

fn signer(certificate: &CertificateInfo) -> Option<Signer> {
    let claims = &certificate.ci_claims;
    let workflow = claims.source_repository_uri.clone().map(|repository| Workflow {
        owner: claims.source_repository_owner_uri.clone(),
        repository,
        reference: claims.source_repository_ref.clone(),
    });
    let subject = certificate.identity.as_ref()?.as_str().to_owned();
    Some(Signer::Identity { issuer: certificate.issuer.clone()?, subject, workflow })
}

/// The library's reasons, outermost first, in one line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}
