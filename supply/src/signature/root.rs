//! The trusted root: certificate authorities and logs that prove identities, as a file.

use std::{fmt, sync::Arc};

use fettle_model::digest::Digest;
use sigstore_verify::Verifier;

/// A Sigstore `trusted_root.json`: which certificate authorities, certificate transparency logs,
/// signature transparency logs and timestamp authorities count. Used offline; nothing is refreshed.
/// Cheap to clone.
///
/// What the root names is demanded: with certificate transparency logs, a certificate has to carry a
/// timestamp of one; with signature transparency logs, a signature has to be in one. A private
/// authority without logs needs a timestamp authority, because certificates are short-lived.
#[derive(Clone)]
pub struct TrustedRoot {
    inner: Arc<Inner>,
}

struct Inner {
    verifier: Verifier,
    certificate_logs: bool,
    signature_logs: bool,
    digest: Digest,
}

/// Why a trusted root is refused.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TrustedRootError {
    /// It has another form.
    #[error("the trusted root cannot be read; expected a Sigstore `trusted_root.json`")]
    Document(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// A key or a certificate in it cannot be used.
    #[error("the trusted root names a key, a certificate or a time that cannot be used; correct it")]
    Material(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// Nobody in it could vouch for an identity.
    #[error("the trusted root names no certificate authority, so it proves no identity; add one, or leave it out")]
    NoAuthority,
    /// Nobody in it could vouch for a time.
    #[error(
        "the trusted root names neither a transparency log nor a timestamp authority, so nothing proves that a \
         certificate was valid when it was used; add one"
    )]
    NoTime,
}

impl TrustedRoot {
    /// Reads the JSON text.
    ///
    /// # Errors
    /// When it has another form, or could prove nothing.
    pub fn read(text: &str) -> Result<Self, TrustedRootError> {
        let root = sigstore_verify::trust_root::TrustedRoot::from_json(text)
            .map_err(|error| TrustedRootError::Document(Arc::new(error)))?;
        if root.certificate_authorities.is_empty() {
            return Err(TrustedRootError::NoAuthority);
        }
        if root.tlogs.is_empty() && root.timestamp_authorities.is_empty() {
            return Err(TrustedRootError::NoTime);
        }
        let inner = Inner {
            verifier: Verifier::new(&root).map_err(|error| TrustedRootError::Material(Arc::new(error)))?,
            certificate_logs: !root.ctlogs.is_empty(),
            signature_logs: !root.tlogs.is_empty(),
            digest: Digest::of(text.as_bytes()),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The digest of the text: which root a verdict was reached with.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.inner.digest
    }

    pub(super) fn verifier(&self) -> &Verifier {
        &self.inner.verifier
    }

    /// Whether certificates have to be in a log.
    pub(super) fn has_certificate_logs(&self) -> bool {
        self.inner.certificate_logs
    }

    /// Whether signatures have to be in a log.
    pub(super) fn has_signature_logs(&self) -> bool {
        self.inner.signature_logs
    }
}

impl PartialEq for TrustedRoot {
    fn eq(&self, other: &Self) -> bool {
        self.inner.digest == other.inner.digest
    }
}

impl Eq for TrustedRoot {}

impl fmt::Debug for TrustedRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TrustedRoot({})", self.inner.digest)
    }
}
