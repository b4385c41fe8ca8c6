//! The key of a node or a plane. It never leaves the machine that made it.

use rcgen::{CertificateParams, DistinguishedName, PKCS_ECDSA_P256_SHA256, PublicKeyData as _};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use zeroize::Zeroizing;

/// A key pair: ECDSA on P-256, which every TLS 1.3 implementation has and which signs quickly.
pub struct Key(rcgen::KeyPair);

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// None could be made.
    #[error("the cryptographic library made no key")]
    Generate(#[source] rcgen::Error),
    /// The text is none.
    #[error("this is no private key in PEM; it was changed, or cut short")]
    Malformed(#[source] rcgen::Error),
    /// It signs nothing.
    #[error("a certificate request could not be made")]
    Request(#[source] rcgen::Error),
    /// It signs nothing.
    #[error("the key did not sign")]
    Sign(#[source] rcgen::Error),
}

impl Key {
    /// A new one.
    ///
    /// # Errors
    /// When the cryptographic library fails.
    pub fn generate() -> Result<Self, KeyError> {
        rcgen::KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map(Self).map_err(KeyError::Generate)
    }

    /// Reads one back.
    ///
    /// # Errors
    /// When the text is no private key.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        rcgen::KeyPair::from_pem(text).map(Self).map_err(KeyError::Malformed)
    }

    /// As it is kept, in a file that only its owner may read.
    #[must_use]
    pub fn to_pem(&self) -> Zeroizing<String> {
        Zeroizing::new(self.0.serialize_pem())
    }

    /// Its public half (SubjectPublicKeyInfo) as PEM.
    #[must_use]
    pub fn public_pem(&self) -> String {
        self.0.public_key_pem()
    }

    /// A certificate request (PKCS #10, DER): it names the public key and is signed by the private one, which is all
    /// that an authority takes from it.
    ///
    /// # Errors
    /// When the key signs nothing.
    pub fn request(&self) -> Result<Vec<u8>, KeyError> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = DistinguishedName::new();
        let request = parameters.serialize_request(&self.0).map_err(KeyError::Request)?;
        Ok(request.der().to_vec())
    }

    /// ECDSA with SHA-256 over these bytes, in ASN.1.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        rcgen::SigningKey::sign(&self.0, message).map_err(KeyError::Sign)
    }

    pub(crate) fn for_tls(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.0.serialized_der().to_vec()))
    }
}

impl rcgen::PublicKeyData for Key {
    fn der_bytes(&self) -> &[u8] {
        self.0.der_bytes()
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        self.0.algorithm()
    }
}

impl rcgen::SigningKey for Key {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        self.0.sign(message)
    }
}

/// The public key (SubjectPublicKeyInfo, DER) in a PEM text, as [`requested_key`](crate::requested_key) answers it; none
/// when there is none, or one that no authority signs for.
#[must_use]
pub fn public_from_pem(text: &str) -> Option<Vec<u8>> {
    let read = pem::parse(text).ok().filter(|read| read.tag() == "PUBLIC KEY")?;
    let key = rcgen::SubjectPublicKeyInfo::from_der(read.contents()).ok()?;
    let algorithm: &rcgen::SignatureAlgorithm = key.algorithm();
    (*algorithm == PKCS_ECDSA_P256_SHA256).then(|| read.contents().to_vec())
}
