//! The authorities that count: one, and two while one replaces the other.

use std::sync::Arc;

use rustls::{RootCertStore, pki_types::pem::PemObject as _};

use crate::{Certificate, Fingerprint};

/// Certificates of authorities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roots(Vec<Certificate>);

/// Why these are no roots.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// Nobody would count.
    #[error("there is no certificate of an authority")]
    Empty,
    /// The text is no certificate.
    #[error("this is no certificate in PEM; it was changed, or cut short")]
    Pem(#[source] rustls::pki_types::pem::Error),
    /// A certificate cannot anchor trust.
    #[error("this is no certificate of an authority")]
    Malformed(#[source] rustls::Error),
}

impl Roots {
    /// These, in DER.
    ///
    /// # Errors
    /// When there is none, or one is malformed.
    pub fn new(certificates: Vec<Certificate>) -> Result<Self, RootsError> {
        let roots = Self(certificates);
        roots.store()?;
        Ok(roots)
    }

    /// Reads them from PEM.
    ///
    /// # Errors
    /// When there is none, or one is malformed.
    pub fn from_pem(text: &str) -> Result<Self, RootsError> {
        let certificates = Certificate::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
        Self::new(certificates.map_err(RootsError::Pem)?)
    }

    /// As PEM, one after the other.
    #[must_use]
    pub fn to_pem(&self) -> String {
        self.0.iter().map(|root| to_pem(root)).collect()
    }

    /// In DER.
    #[must_use]
    pub fn certificates(&self) -> &[Certificate] {
        &self.0
    }

    /// What they are known by.
    pub fn fingerprints(&self) -> impl Iterator<Item = Fingerprint> {
        self.0.iter().map(|root| Fingerprint::of(root))
    }

    pub(crate) fn store(&self) -> Result<Arc<RootCertStore>, RootsError> {
        if self.0.is_empty() {
            return Err(RootsError::Empty);
        }
        let mut store = RootCertStore::empty();
        for root in &self.0 {
            store.add(root.clone()).map_err(RootsError::Malformed)?;
        }
        Ok(Arc::new(store))
    }
}

/// The first certificate of a PEM text.
///
/// # Errors
/// When there is none.
pub fn from_pem(text: &str) -> Result<Certificate, RootsError> {
    Certificate::from_pem_slice(text.as_bytes()).map_err(RootsError::Pem)
}

/// A certificate as PEM.
#[must_use]
pub fn to_pem(certificate: &[u8]) -> String {
    pem::encode(&pem::Pem::new("CERTIFICATE", certificate))
}
