//! Where the plane gets signed documents from.

use async_trait::async_trait;
use bytes::Bytes;
use fettle_model::reference::Reference;
use fettle_supply::{ArtifactKind, Supplier};
use serde_json::Value;

/// A verified artifact.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Its content.
    pub content: Bytes,
    /// What a step says of itself.
    pub descriptor: Option<Value>,
    /// Whose signatures counted, separated by commas.
    pub signed_by: String,
}

/// Why there is no artifact.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ArtifactError {
    /// Stable, dotted: `artifact.unsigned`.
    pub code: &'static str,
    /// What, which rule it broke, and the fix.
    pub message: String,
    /// Whether the same request may succeed later.
    pub transient: bool,
}

/// Fetches artifacts by digest and verifies them.
#[async_trait]
pub trait ArtifactSource: Send + Sync {
    /// One verified artifact.
    ///
    /// # Errors
    /// When it cannot be fetched or does not verify.
    async fn fetch(&self, kind: ArtifactKind, reference: &Reference) -> Result<Fetched, ArtifactError>;
}

#[async_trait]
impl ArtifactSource for Supplier {
    async fn fetch(&self, kind: ArtifactKind, reference: &Reference) -> Result<Fetched, ArtifactError> {
        let artifact = self.artifact(kind, reference).await.map_err(|error| ArtifactError {
            code: match error.verdict() {
                Some(fettle_supply::Verdict::Unsigned) => "artifact.unsigned",
                Some(fettle_supply::Verdict::Untrusted) => "artifact.untrusted",
                Some(fettle_supply::Verdict::Malformed) => "artifact.malformed",
                Some(fettle_supply::Verdict::Unavailable) | None => "artifact.unavailable",
            },
            transient: error.is_transient() || error.verdict().is_none(),
            message: error.to_string(),
        })?;
        let signed_by = artifact.signers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        Ok(Fetched { content: artifact.content, descriptor: artifact.descriptor, signed_by })
    }
}

/// What a plane without a trust policy has: nothing.
pub(crate) struct TrustsNobody;

#[async_trait]
impl ArtifactSource for TrustsNobody {
    async fn fetch(&self, _kind: ArtifactKind, reference: &Reference) -> Result<Fetched, ArtifactError> {
        Err(ArtifactError {
            code: "artifact.untrusted",
            message: format!(
                "{reference} cannot be verified: this plane has no trust policy; start it with `--trust <file>`"
            ),
            transient: false,
        })
    }
}
