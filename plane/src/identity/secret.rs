//! Secrets: 192 random bits, shown once, kept as a hash.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use fettle_store::secret::SecretHash;

use crate::clock::{Clock, NoRandomness};

/// What a secret is for; its prefix, so that leaked ones can be found and told apart.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// A bearer token.
    Token,
    /// A join token.
    Join,
}

impl Purpose {
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::Token => "fettle_",
            Self::Join => "fettle_join_",
        }
    }
}

/// A secret in clear. It never reaches a log: its debug form is empty.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A new one.
    pub(crate) fn generate(clock: &dyn Clock, purpose: Purpose) -> Result<Self, NoRandomness> {
        let mut bytes = [0; 24];
        clock.random(&mut bytes)?;
        Ok(Self(format!("{}{}", purpose.prefix(), URL_SAFE_NO_PAD.encode(bytes))))
    }

    /// The text, to be shown once.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The same with what a host knows the plane by.
    pub(crate) fn with(&self, authority: fettle_identity::Fingerprint) -> Self {
        Self(format!("{}.{authority}", self.0))
    }

    /// What is kept of it.
    pub(crate) fn hash(&self) -> SecretHash {
        SecretHash::of(&self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The join token itself, of what its holder was given: the fingerprint behind the dot is for the host, which finds by
/// it the right plane.
pub(crate) fn join_token(text: &str) -> Option<&str> {
    let token = text.split_once('.').map_or(text, |(token, _)| token);
    token.starts_with(Purpose::Join.prefix()).then_some(token)
}

/// What is kept of a key that lets one node in, in the place of a join token. No join token has the same.
pub(crate) fn key_hash(public_key: &[u8]) -> SecretHash {
    SecretHash::of(&format!("join-key {}", hex::encode(public_key)))
}

/// The secret of an `authorization` header.
pub(crate) fn bearer(header: &str) -> Option<&str> {
    let (scheme, secret) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    #[test]
    fn secrets_are_long_differ_and_are_not_printed() {
        let first = Secret::generate(&SystemClock, Purpose::Token).unwrap();
        let second = Secret::generate(&SystemClock, Purpose::Token).unwrap();
        assert_ne!(first, second);
        assert_eq!(first.reveal().len(), "fettle_".len() + 32);
        assert_eq!(format!("{first:?}"), "Secret");
        assert!(!first.hash().hex().contains(first.reveal()));
    }

    #[test]
    fn the_scheme_is_read_as_the_standard_says() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("bearer abc"), Some("abc"));
        assert_eq!(bearer("Basic abc"), None);
        assert_eq!(bearer("abc"), None);
    }
}
