//! What signs certificates.

use std::sync::Arc;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyUsagePurpose, PublicKeyData, SanType, SerialNumber, SigningKey,
};
use rustls::pki_types::CertificateSigningRequestDer;

use crate::{Certificate, Fingerprint, Role, tls::PLANE_NAME};

/// A key that signs certificates: [`crate::Key`], or one that a device or a service keeps to itself.
pub trait AuthorityKey: SigningKey + Send + Sync {
    /// Why it did not sign the last time, where it has more to say of that than the error.
    fn failure(&self) -> Option<String> {
        None
    }
}

impl AuthorityKey for crate::Key {}

/// The key behind an authority, whatever keeps it.
#[derive(Clone)]
struct Shared(Arc<dyn AuthorityKey>);

impl Shared {
    /// Why it did not sign.
    fn failed(&self, error: rcgen::Error) -> AuthorityError {
        self.0.failure().map_or(AuthorityError::Sign(error), AuthorityError::Device)
    }
}

impl PublicKeyData for Shared {
    fn der_bytes(&self) -> &[u8] {
        self.0.der_bytes()
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        self.0.algorithm()
    }
}

impl SigningKey for Shared {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        self.0.sign(message)
    }
}

/// A certificate's serial number: 16 random bytes. RFC 5280, 4.1.2.2 allows 20; CA/Browser Forum asks for 64 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serial(pub [u8; 16]);

impl Serial {
    /// Positive and without leading zeros, as the encoding asks.
    fn number(self) -> SerialNumber {
        let mut bytes = self.0;
        bytes[0] = bytes[0] & 0x7f | 0x40;
        SerialNumber::from_slice(&bytes)
    }
}

/// From when until when a certificate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub from: Timestamp,
    /// The last second.
    pub until: Timestamp,
}

/// Why no certificate was signed.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The request is none, or its signature is not by the key it names.
    #[error("the certificate request is malformed, or is not signed by the key it names")]
    Request(#[source] rcgen::Error),
    /// Keys of this kind are not signed.
    #[error("the certificate request names a key of a kind that is not taken; make one on the curve P-256")]
    Algorithm,
    /// Certificates are written with years from 1950 to 9999.
    #[error("{0} cannot be written into a certificate")]
    Time(Timestamp),
    /// The key did not sign.
    #[error("the authority's key did not sign")]
    Sign(#[source] rcgen::Error),
    /// The device that keeps the key did not sign.
    #[error("the authority's key did not sign: {0}")]
    Device(String),
    /// The root is no certificate of an authority.
    #[error("the authority's own certificate is malformed")]
    Root(#[source] rcgen::Error),
}

/// What signs the certificates of nodes and planes.
pub struct Authority {
    root: Certificate,
    key: Shared,
    issuer: Issuer<'static, Shared>,
}

fn time(at: Timestamp) -> Result<time::OffsetDateTime, AuthorityError> {
    time::OffsetDateTime::from_unix_timestamp(at.as_second()).map_err(|_| AuthorityError::Time(at))
}

fn parameters(name: &str, validity: Validity, serial: Serial) -> Result<CertificateParams, AuthorityError> {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.not_before = time(validity.from)?;
    parameters.not_after = time(validity.until)?;
    parameters.serial_number = Some(serial.number());
    parameters.use_authority_key_identifier_extension = true;
    Ok(parameters)
}

impl Authority {
    /// A new one, which signs itself. It may sign for nodes and planes and make no other authority.
    ///
    /// # Errors
    /// When the key does not sign, or the times cannot be written.
    pub fn create(key: Arc<dyn AuthorityKey>, validity: Validity, serial: Serial) -> Result<Self, AuthorityError> {
        let mut parameters = parameters("Fettle node authority", validity, serial)?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = Shared(key);
        let root = parameters.self_signed(&key).map_err(|error| key.failed(error))?;
        Self::with(root.der().clone(), key)
    }

    /// One that exists.
    ///
    /// # Errors
    /// When the certificate is malformed.
    pub fn open(root: Certificate, key: Arc<dyn AuthorityKey>) -> Result<Self, AuthorityError> {
        Self::with(root, Shared(key))
    }

    fn with(root: Certificate, key: Shared) -> Result<Self, AuthorityError> {
        let issuer = Issuer::from_ca_cert_der(&root, key.clone()).map_err(AuthorityError::Root)?;
        Ok(Self { root, key, issuer })
    }

    /// Its own certificate.
    #[must_use]
    pub const fn root(&self) -> &Certificate {
        &self.root
    }

    /// What it is known by.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.root)
    }

    /// Signs for the key of this request. Nothing else of the request counts: who it is for is what the caller says.
    ///
    /// # Errors
    /// When the request is malformed or names a key of another kind, or the authority's key does not sign.
    pub fn issue(
        &self,
        request: &[u8],
        role: &Role,
        validity: Validity,
        serial: Serial,
    ) -> Result<Certificate, AuthorityError> {
        let mut request = read(request)?;
        request.params = leaf(role, validity, serial)?;
        let issued = request.signed_by(&self.issuer).map_err(|error| self.key.failed(error))?;
        Ok(issued.der().clone())
    }
}

/// The public key (SubjectPublicKeyInfo, DER) that a request names; none when it is malformed, not signed by that key,
/// or of a kind that is not signed.
#[must_use]
pub fn requested_key(request: &[u8]) -> Option<Vec<u8>> {
    read(request).ok().map(|request| request.public_key.subject_public_key_info())
}

fn read(request: &[u8]) -> Result<CertificateSigningRequestParams, AuthorityError> {
    let request = CertificateSigningRequestDer::from(request.to_vec());
    let request = CertificateSigningRequestParams::from_der(&request).map_err(AuthorityError::Request)?;
    if *request.public_key.algorithm() != rcgen::PKCS_ECDSA_P256_SHA256 {
        return Err(AuthorityError::Algorithm);
    }
    Ok(request)
}

fn leaf(role: &Role, validity: Validity, serial: Serial) -> Result<CertificateParams, AuthorityError> {
    let name = match role {
        Role::Plane => "plane",
        Role::Node(id) => id,
        Role::TaskSigner => "tasks",
    };
    let text = |text: &str| text.to_owned().try_into().map_err(AuthorityError::Sign);
    let mut parameters = parameters(name, validity, serial)?;
    parameters.is_ca = IsCa::ExplicitNoCa;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // What one of them may do, no other one may: who has the key of a connection signs no tasks.
    parameters.extended_key_usages = match role {
        Role::Plane => vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth],
        Role::Node(_) => vec![ExtendedKeyUsagePurpose::ClientAuth],
        Role::TaskSigner => vec![ExtendedKeyUsagePurpose::CodeSigning],
    };
    parameters.subject_alt_names = vec![SanType::URI(text(&role.uri())?)];
    if *role == Role::Plane {
        parameters.subject_alt_names.push(SanType::DnsName(text(PLANE_NAME)?));
    }
    Ok(parameters)
}
