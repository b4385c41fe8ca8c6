//! What a certificate says about its holder.

use jiff::Timestamp;
use x509_parser::{
    certificate::X509Certificate,
    extensions::{GeneralName, ParsedExtension},
    prelude::FromDer as _,
};

use crate::{Role, Validity};

/// The other end of a connection, by its certificate. Whether the certificate counts is not said here: a connection
/// that TLS let through has answered that, and [`crate::tls::Check`] answers it for what did not come by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// What it is.
    pub role: Role,
    /// The certificate's serial number, in hexadecimal.
    pub serial: String,
    /// From when until when the certificate counts.
    pub validity: Validity,
    /// Which authority's key signed it, in hexadecimal.
    pub authority: String,
    /// The holder's public key (SubjectPublicKeyInfo, DER).
    pub public_key: Vec<u8>,
}

/// Why a certificate says nothing about its holder.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// It is none.
    #[error("the certificate is malformed")]
    Malformed,
    /// It is not one of ours.
    #[error("the certificate does not say which node or plane it belongs to; it was not made by Fettle")]
    NoRole,
}

impl Peer {
    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// When it is malformed, or names no role or several.
    pub fn read(certificate: &[u8]) -> Result<Self, PeerError> {
        let (rest, certificate) = X509Certificate::from_der(certificate).map_err(|_| PeerError::Malformed)?;
        if !rest.is_empty() {
            return Err(PeerError::Malformed);
        }
        let time =
            |at: x509_parser::time::ASN1Time| Timestamp::from_second(at.timestamp()).map_err(|_| PeerError::Malformed);
        let validity =
            Validity { from: time(certificate.validity().not_before)?, until: time(certificate.validity().not_after)? };
        Ok(Self {
            role: role(&certificate)?,
            serial: hex::encode(certificate.raw_serial()),
            validity,
            authority: authority(&certificate),
            public_key: certificate.public_key().raw.to_vec(),
        })
    }
}

/// The one role that the certificate names.
fn role(certificate: &X509Certificate<'_>) -> Result<Role, PeerError> {
    let names = certificate.subject_alternative_name().map_err(|_| PeerError::Malformed)?.ok_or(PeerError::NoRole)?;
    let mut roles = names.value.general_names.iter().filter_map(|name| match name {
        GeneralName::URI(uri) => Some(Role::from_uri(uri)),
        _ => None,
    });
    match (roles.next(), roles.next()) {
        (Some(Some(role)), None) => Ok(role),
        _ => Err(PeerError::NoRole),
    }
}

fn authority(certificate: &X509Certificate<'_>) -> String {
    let found = certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(identifier) => identifier.key_identifier.as_ref(),
        _ => None,
    });
    found.map(|identifier| hex::encode(identifier.0)).unwrap_or_default()
}
