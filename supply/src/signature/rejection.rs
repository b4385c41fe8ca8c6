//! Why a signature is worth nothing.

use super::Signer;
use crate::error::Verdict;

/// Why a signature is worth nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// It has no form that can be checked.
    #[error("a signature cannot be read ({0}); sign it again")]
    Unreadable(String),
    /// None of the offered keys made it.
    #[error("a signature is by none of the trusted keys{0}; sign it with one of them, or have its signer trusted")]
    OtherSigner(
        /// Which key it says it is by, with a leading space, or nothing.
        String,
    ),
    /// Somebody signed something else.
    #[error("a signature by {signer} is about {signed}, not about this artifact; sign this digest")]
    OtherSubject {
        /// Who.
        signer: Box<Signer>,
        /// What they did sign.
        signed: String,
    },
    /// It is by an identity, and nothing is configured that could prove one.
    #[error(
        "a signature is by an identity with a certificate, and no trusted root is configured that could prove it; \
         configure a `trusted_root.json`, or sign with a trusted key"
    )]
    NoTrustedRoot,
    /// It is by an identity that the trusted root does not prove.
    #[error("the trusted root does not prove who made a signature: {0}")]
    Unproven(String),
}

impl Rejection {
    /// The verdict on an artifact that has no other signature.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        match self {
            Self::Unreadable(_) => Verdict::Malformed,
            Self::OtherSigner(_) | Self::OtherSubject { .. } | Self::NoTrustedRoot | Self::Unproven(_) => {
                Verdict::Untrusted
            }
        }
    }
}
