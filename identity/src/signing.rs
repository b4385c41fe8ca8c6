//! What a plane signs for the nodes to obey: DSSE (the Dead Simple Signing Envelope, version 1), by a key that the
//! authority certified for this and for nothing else. That key opens no connection, and the key of a connection signs
//! no work.

use jiff::Timestamp;
use rustls::{
    crypto::aws_lc_rs,
    pki_types::{SignatureVerificationAlgorithm, TrustAnchor, UnixTime},
};
use webpki::{EndEntityCert, KeyUsage};

use crate::{Certificate, Key, KeyError, Peer, Role, Roots};

/// `id-kp-codeSigning` of RFC 5280, 4.2.1.12: what the certificate of such a key is for.
const PURPOSE: &[u8] = &[43, 6, 1, 5, 5, 7, 3, 3];

/// A plane's key for work, with its certificate.
pub struct Signer {
    key: Key,
    certificate: Certificate,
}

/// Whose work counts: that of keys which one of these authorities certified.
pub struct Signers(Vec<TrustAnchor<'static>>);

/// A key whose work counts.
#[derive(Debug)]
pub struct Accepted {
    certificate: Certificate,
    peer: Peer,
}

/// Why work does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSigned {
    /// The certificate cannot be read.
    #[error("the certificate of the key that signs tasks cannot be read")]
    Malformed,
    /// No authority that counts has certified the key.
    #[error("the key that signs tasks is not certified by an authority that counts here")]
    UnknownAuthority,
    /// The certificate counts at another time.
    #[error(
        "the certificate of the key that signs tasks does not count at this time; check the clocks of both machines"
    )]
    Expired,
    /// The certificate was made for something else.
    #[error("the certificate was made for another purpose than to sign tasks")]
    WrongPurpose,
    /// The signature is of another key, or over something else.
    #[error("the signature is not by the key that signs tasks, or what it is over was changed")]
    Signature,
}

/// There are no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the system gives no random bytes")]
pub struct NoChallenge;

/// What a node asks to have signed along, so that nothing that was signed before counts: 32 random bytes.
///
/// # Errors
/// When the system gives none.
pub fn challenge() -> Result<Vec<u8>, NoChallenge> {
    let mut bytes = vec![0; 32];
    aws_lc_rs::default_provider().secure_random.fill(&mut bytes).map_err(|_| NoChallenge)?;
    Ok(bytes)
}

/// The bytes that a signature is over: the pre-authentication encoding of DSSE.
fn signed_bytes(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

impl Signer {
    /// This key, with the certificate that the authority gave it.
    #[must_use]
    pub const fn new(key: Key, certificate: Certificate) -> Self {
        Self { key, certificate }
    }

    /// What nodes know it by.
    #[must_use]
    pub const fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Signs a payload of this type: ECDSA on P-256 with SHA-256, in ASN.1.
    ///
    /// # Errors
    /// When the key signs nothing.
    pub fn sign(&self, payload_type: &str, payload: &[u8]) -> Result<Vec<u8>, KeyError> {
        self.key.sign(&signed_bytes(payload_type, payload))
    }
}

impl Signers {
    /// Those of these authorities.
    #[must_use]
    pub fn of(roots: &Roots) -> Self {
        let anchors = roots.certificates().iter().filter_map(|root| webpki::anchor_from_trusted_cert(root).ok());
        Self(anchors.map(|anchor| anchor.to_owned()).collect())
    }

    /// Looks at the certificate of a key for work.
    ///
    /// # Errors
    /// Why its work does not count.
    pub fn accept(&self, certificate: Certificate, at: Timestamp) -> Result<Accepted, NotSigned> {
        let parsed = EndEntityCert::try_from(&certificate).map_err(|_| NotSigned::Malformed)?;
        let now =
            UnixTime::since_unix_epoch(std::time::Duration::from_secs(u64::try_from(at.as_second()).unwrap_or(0)));
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms.all;
        let usage = KeyUsage::required(PURPOSE);
        parsed
            .verify_for_usage(algorithms, &self.0, &[], now, usage, None, None)
            .map_err(|error| not_signed(&error))?;
        let peer = Peer::read(&certificate).map_err(|_| NotSigned::Malformed)?;
        if peer.role != Role::TaskSigner {
            return Err(NotSigned::WrongPurpose);
        }
        Ok(Accepted { certificate, peer })
    }
}

impl Accepted {
    /// Whether the key signed this payload, and counted at this time.
    ///
    /// # Errors
    /// Why it does not count.
    pub fn verify(
        &self,
        (payload_type, payload): (&str, &[u8]),
        signature: &[u8],
        at: Timestamp,
    ) -> Result<(), NotSigned> {
        if at < self.peer.validity.from || self.peer.validity.until < at {
            return Err(NotSigned::Expired);
        }
        let parsed = EndEntityCert::try_from(&self.certificate).map_err(|_| NotSigned::Malformed)?;
        let verified = parsed.verify_signature(P256, &signed_bytes(payload_type, payload), signature);
        verified.map_err(|_| NotSigned::Signature)
    }
}

/// The one algorithm of [`Key`].
static P256: &dyn SignatureVerificationAlgorithm = webpki::aws_lc_rs::ECDSA_P256_SHA256;

const fn not_signed(error: &webpki::Error) -> NotSigned {
    use webpki::Error;
    match error {
        Error::CertExpired { .. } | Error::CertNotValidYet { .. } => NotSigned::Expired,
        Error::RequiredEkuNotFoundContext(_) => NotSigned::WrongPurpose,
        Error::UnknownIssuer | Error::InvalidSignatureForPublicKey => NotSigned::UnknownAuthority,
        _ => NotSigned::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use super::signed_bytes;

    #[test]
    fn what_is_signed_is_the_encoding_of_the_specification() {
        // The example of https://github.com/secure-systems-lab/dsse/blob/v1.0.0/protocol.md.
        let signed = signed_bytes("http://example.com/HelloWorld", b"hello world");
        assert_eq!(signed, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    }
}
