//! Why a token is not taken.

/// The longest piece of a stranger's text in a sentence.
const LONGEST: usize = 200;

/// Why a token says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is none.
    #[error("the token is no JSON Web Token, or lacks `iss`, `sub`, `aud` or `exp`")]
    Malformed,
    /// It is signed in a way that proves nothing.
    #[error("the token is signed with `{0}`; RS256, PS256, ES256 and EdDSA are taken, and their longer forms")]
    Algorithm(String),
    /// Nobody we believe has made it.
    #[error(
        "the token was issued by `{0}`, which this plane does not believe; issuers are compared letter by letter, slashes too"
    )]
    UnknownIssuer(String),
    /// The issuer has no such key.
    #[error("the token is signed with a key that `{issuer}` does not publish; log in again")]
    UnknownKey {
        /// Which issuer.
        issuer: String,
    },
    /// It was changed, or somebody else signed it.
    #[error("the signature of the token is not by the key of `{issuer}` that it names")]
    Signature {
        /// Which issuer.
        issuer: String,
    },
    /// It is for somebody else.
    #[error("the token is for another audience than {0}")]
    Audience(String),
    /// Its time is over.
    #[error("the token has expired; log in again")]
    Expired,
    /// Its time has not come.
    #[error("the token does not count yet; compare the clocks of issuer and plane")]
    NotYetValid,
    /// The issuer's keys are not known now.
    #[error("the keys of `{issuer}` cannot be fetched: {reason}")]
    Unavailable {
        /// Which issuer.
        issuer: String,
        /// What went wrong.
        reason: String,
    },
}

impl Refusal {
    /// For programs.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Malformed => "openid.token_malformed",
            Self::Algorithm(_) => "openid.algorithm_refused",
            Self::UnknownIssuer(_) => "openid.issuer_unknown",
            Self::UnknownKey { .. } => "openid.key_unknown",
            Self::Signature { .. } => "openid.signature_invalid",
            Self::Audience(_) => "openid.audience_wrong",
            Self::Expired => "openid.token_expired",
            Self::NotYetValid => "openid.token_not_yet_valid",
            Self::Unavailable { .. } => "openid.issuer_unavailable",
        }
    }
}

/// The beginning of what a stranger wrote, fit for a sentence.
pub(crate) fn cut(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(LONGEST).collect()
}
