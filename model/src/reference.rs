//! Where an artifact is: a registry, a repository and a digest. Never a tag.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// `host[:port]/repository`, the place without the digest.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Repository {
    registry: String,
    path: String,
}

/// `host[:port]/repository@sha256:<hex>`: exactly one artifact, whatever its registry does.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Reference {
    /// Where it is.
    pub repository: Repository,
    /// What it is.
    pub digest: Digest,
}

/// Why a text is not a repository or a reference.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ParseReferenceError {
    /// It names a tag, and a tag can be moved.
    #[error("`{0}` names a tag; a tag can be moved, so write the digest: `{1}@sha256:<hex>`")]
    Tag(String, String),
    /// It has no digest.
    #[error("`{0}` has no digest; write `host:port/repository@sha256:<hex>`")]
    NoDigest(String),
    /// The part after `@` is no digest.
    #[error("`{0}` does not end in a digest; write `host:port/repository@sha256:<hex>`")]
    BadDigest(String),
    /// The part before `@` is no repository.
    #[error(
        "`{0}` is not a repository; write `host:port/path` with lowercase letters, digits, `.`, `_`, `-` and `/` in the path"
    )]
    BadRepository(String),
}

impl Repository {
    /// `host[:port]`.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The path below the registry.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The same repository's artifact with this digest.
    #[must_use]
    pub fn at(&self, digest: Digest) -> Reference {
        Reference { repository: self.clone(), digest }
    }
}

fn is_registry(text: &str) -> bool {
    let host_like = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    !text.is_empty() && text.bytes().all(host_like) && (text.contains(['.', ':']) || text == "localhost")
}

fn is_repository_path(text: &str) -> bool {
    let component = |part: &str| {
        let edge = |byte: Option<u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        edge(part.bytes().next())
            && edge(part.bytes().last())
            && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b))
    };
    !text.is_empty() && text.len() <= 255 && text.split('/').all(component)
}

impl FromStr for Repository {
    type Err = ParseReferenceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseReferenceError::BadRepository(text.chars().take(300).collect());
        let (registry, path) = text.split_once('/').ok_or_else(wrong)?;
        if is_registry(registry) && is_repository_path(path) {
            Ok(Self { registry: registry.to_owned(), path: path.to_owned() })
        } else {
            Err(wrong())
        }
    }
}

impl FromStr for Reference {
    type Err = ParseReferenceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let shown = || text.chars().take(300).collect::<String>();
        let Some((place, digest)) = text.split_once('@') else {
            return Err(match text.rsplit_once('/').and_then(|(_, last)| last.rsplit_once(':')) {
                Some((_, tag)) => {
                    let place = text.strip_suffix(tag).and_then(|t| t.strip_suffix(':')).unwrap_or(text);
                    ParseReferenceError::Tag(shown(), place.to_owned())
                }
                None => ParseReferenceError::NoDigest(shown()),
            });
        };
        if let Some((_, tag)) = place.rsplit_once('/').and_then(|(_, last)| last.rsplit_once(':')) {
            let place = place.strip_suffix(tag).and_then(|t| t.strip_suffix(':')).unwrap_or(place);
            return Err(ParseReferenceError::Tag(shown(), place.to_owned()));
        }
        let digest = digest.parse().map_err(|_| ParseReferenceError::BadDigest(shown()))?;
        Ok(Self { repository: place.parse()?, digest })
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.path)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.repository, self.digest)
    }
}

impl fmt::Debug for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TryFrom<String> for Repository {
    type Error = ParseReferenceError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Repository> for String {
    fn from(repository: Repository) -> Self {
        repository.to_string()
    }
}

impl TryFrom<String> for Reference {
    type Error = ParseReferenceError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Reference> for String {
    fn from(reference: Reference) -> Self {
        reference.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_digest_reference_round_trips() {
        for place in ["127.0.0.1:5000/steps/file.render", "localhost/a/b", "registry.internal:5000/models/x-7b"] {
            let text = format!("{place}@sha256:{HEX}");
            assert_eq!(text.parse::<Reference>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_tag_is_refused_and_the_fix_named() {
        let error = "127.0.0.1:5000/steps/render:v1".parse::<Reference>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "`127.0.0.1:5000/steps/render:v1` names a tag; a tag can be moved, so write the digest: \
             `127.0.0.1:5000/steps/render@sha256:<hex>`"
        );
        let both = format!("localhost:1/a:v1@sha256:{HEX}").parse::<Reference>().unwrap_err();
        assert!(matches!(both, ParseReferenceError::Tag(..)));
    }

    #[test]
    fn malformed_references_are_refused() {
        for (text, expected) in [
            ("localhost/a".to_owned(), "has no digest"),
            ("localhost/a@sha256:12".to_owned(), "does not end in a digest"),
            (format!("a/b@sha256:{HEX}"), "is not a repository"),
            (format!("user@localhost/b@sha256:{HEX}"), "does not end in a digest"),
            (format!("localhost/../b@sha256:{HEX}"), "is not a repository"),
            (format!("localhost/A@sha256:{HEX}"), "is not a repository"),
        ] {
            let error = text.parse::<Reference>().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
