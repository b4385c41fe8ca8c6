//! The trusted root: certificate authorities and logs that prove identities, as a file.

use std::{fmt, sync::Arc};

use fettle_model::digest::Digest;

/// A Sigstore `trusted_root.json`: which certificate authorities, certificate transparency logs,
/// signature transparency logs and timestamp authorities count. Used offline; nothing is refreshed.
/// Cheap to clone.
#[derive(Clone)]
pub struct TrustedRoot {
    #[expect(dead_code, reason = "evidence by identities comes next")]
    root: Arc<sigstore_verify::trust_root::TrustedRoot>,
    digest: Digest,
}

/// Why a trusted root is refused.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TrustedRootError {
    /// It has another form.
    #[error("the trusted root cannot be read; expected a Sigstore `trusted_root.json`")]
    Document(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

impl TrustedRoot {
    /// Reads the JSON text.
    ///
    /// # Errors
    /// When it has another form.
    pub fn read(text: &str) -> Result<Self, TrustedRootError> {
        let root = sigstore_verify::trust_root::TrustedRoot::from_json(text)
            .map_err(|error| TrustedRootError::Document(Arc::new(error)))?;
        Ok(Self { root: Arc::new(root), digest: Digest::of(text.as_bytes()) })
    }

    /// The digest of the text: which root a verdict was reached with.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }
}

impl fmt::Debug for TrustedRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TrustedRoot({})", self.digest)
    }
}
