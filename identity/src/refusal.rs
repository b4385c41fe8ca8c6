//! Why a connection was refused, in a word for programs and a sentence for people.

use std::{error::Error, fmt};

use rustls::{CertificateError, Error as TlsError, PeerIncompatible};

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refusal {
    /// The certificate's time is over.
    Expired,
    /// The certificate's time has not come.
    NotYetValid,
    /// No authority that counts has signed it.
    UnknownAuthority,
    /// It belongs to another kind of holder: a node's does not make a plane.
    WrongPurpose,
    /// It belongs to somebody with another name.
    WrongName,
    /// None was shown where one is needed.
    Missing,
    /// It cannot be read, or its holder does not have the key.
    Malformed,
    /// The other end offers nothing as new as TLS 1.3.
    OldTls,
    /// The other end says that our certificate does not count, or gave up.
    Alert,
    /// What came is no TLS, or broke off.
    NoTls,
    /// The other end said nothing for too long.
    TimedOut,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Expired,
        Self::NotYetValid,
        Self::UnknownAuthority,
        Self::WrongPurpose,
        Self::WrongName,
        Self::Missing,
        Self::Malformed,
        Self::OldTls,
        Self::Alert,
        Self::NoTls,
        Self::TimedOut,
    ];

    /// For audit rows, metrics and programs.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Expired => "tls.certificate_expired",
            Self::NotYetValid => "tls.certificate_not_yet_valid",
            Self::UnknownAuthority => "tls.authority_unknown",
            Self::WrongPurpose => "tls.certificate_wrong_purpose",
            Self::WrongName => "tls.certificate_wrong_name",
            Self::Missing => "tls.certificate_missing",
            Self::Malformed => "tls.certificate_malformed",
            Self::OldTls => "tls.version_too_old",
            Self::Alert => "tls.refused_by_peer",
            Self::NoTls => "tls.not_spoken",
            Self::TimedOut => "tls.timed_out",
        }
    }

    /// What a failed handshake was about.
    #[must_use]
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(error) = error.downcast_ref::<TlsError>() {
                return Self::of_tls(error);
            }
            if let Some(refusal) = error.downcast_ref::<Self>() {
                return *refusal;
            }
            // What an I/O error wraps is not among its sources.
            next = match error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
                Some(inner) => Some(inner),
                None => error.source(),
            };
        }
        Self::NoTls
    }

    fn of_tls(error: &TlsError) -> Self {
        match error {
            TlsError::InvalidCertificate(error) => Self::of_certificate(error),
            TlsError::NoCertificatesPresented => Self::Missing,
            TlsError::PeerIncompatible(
                PeerIncompatible::SupportedVersionsExtensionRequired
                | PeerIncompatible::Tls13RequiredForQuic
                | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
                | PeerIncompatible::ServerDoesNotSupportTls12Or13
                | PeerIncompatible::Tls12NotOfferedOrEnabled
                | PeerIncompatible::Tls12NotOffered,
            ) => Self::OldTls,
            TlsError::AlertReceived(rustls::AlertDescription::ProtocolVersion) => Self::OldTls,
            // The other end says so, whatever the clock here shows.
            TlsError::AlertReceived(rustls::AlertDescription::CertificateExpired) => Self::Expired,
            TlsError::AlertReceived(_) => Self::Alert,
            _ => Self::NoTls,
        }
    }

    const fn of_certificate(error: &CertificateError) -> Self {
        match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Self::NotYetValid,
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::UnknownAuthority,
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => Self::WrongPurpose,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => Self::WrongName,
            _ => Self::Malformed,
        }
    }
}

impl Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Expired => "the certificate has expired; renew it, or join again",
            Self::NotYetValid => "the certificate does not count yet; check the clocks of both machines",
            Self::UnknownAuthority => "the certificate is not signed by an authority that counts here",
            Self::WrongPurpose => "the certificate was made for another purpose: a node's makes no plane",
            Self::WrongName => "the certificate belongs to somebody else",
            Self::Missing => "a certificate is needed, and none was shown",
            Self::Malformed => "the certificate cannot be read, or its holder does not have its key",
            Self::OldTls => "TLS 1.3 is needed, and something older was offered",
            Self::Alert => "the other end refused the connection",
            Self::NoTls => "what came is no TLS, or broke off",
            Self::TimedOut => "the other end did not finish its handshake in time",
        })
    }
}
