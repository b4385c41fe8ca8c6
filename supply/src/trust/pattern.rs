//! What a certificate's texts are compared with: exactly, or from the first character up to a slash.

use serde::{Deserialize, Serialize};

use crate::mutation::{Protection, off};

/// Whose certificate counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Subject {
    /// Exactly this e-mail address or URL.
    Equals(String),
    /// Any URL below this one.
    UrlPrefix(String),
}

/// Which branch or tag counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum GitRef {
    /// Exactly this one: `refs/heads/main`.
    Equals(String),
    /// Any below this: `refs/tags/`.
    Prefix(String),
}

impl Subject {
    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            Self::Equals(text) => not_empty("subject", text),
            Self::UrlPrefix(prefix) => {
                url(prefix)?;
                ends_with_slash(prefix)
            }
        }
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        match self {
            Self::Equals(expected) => expected == text,
            Self::UrlPrefix(prefix) => below(prefix, text),
        }
    }

    pub(super) fn shown(&self) -> String {
        match self {
            Self::Equals(text) => format!("`{text}`"),
            Self::UrlPrefix(prefix) => format!("anyone below `{prefix}`"),
        }
    }
}

impl GitRef {
    pub(super) fn check(&self) -> Result<(), String> {
        let (Self::Equals(text) | Self::Prefix(text)) = self;
        if !text.starts_with("refs/") {
            return Err(format!("the ref `{text}` is not a whole one; write `refs/heads/main` or `refs/tags/`"));
        }
        match self {
            Self::Equals(_) => Ok(()),
            Self::Prefix(prefix) => ends_with_slash(prefix),
        }
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        match self {
            Self::Equals(expected) => expected == text,
            Self::Prefix(prefix) => below(prefix, text),
        }
    }

    pub(super) fn shown(&self) -> String {
        match self {
            Self::Equals(text) => format!("`{text}`"),
            Self::Prefix(prefix) => format!("anything below `{prefix}`"),
        }
    }
}

/// Whether `text` continues `prefix`, and does not leave it again.
fn below(prefix: &str, text: &str) -> bool {
    let rest = match text.strip_prefix(prefix) {
        Some(rest) => rest,
        None if off(Protection::PrefixIsAnchored) => return text.contains(prefix),
        None => return false,
    };
    let leaves = |segment: &str| matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
    let strange = |character: char| character == '\\' || character.is_whitespace() || character.is_control();
    !rest.is_empty() && !rest.contains(strange) && !rest.split(['/', '?', '#']).any(leaves)
}

fn ends_with_slash(prefix: &str) -> Result<(), String> {
    if prefix.ends_with('/') || off(Protection::PrefixEndsWithSlash) {
        return Ok(());
    }
    Err(format!("the prefix `{prefix}` does not end with a slash, so `{prefix}-evil` would match; write `{prefix}/`"))
}

/// A URL without anything that two readers could take differently.
pub(super) fn url(text: &str) -> Result<(), String> {
    let wrong = |rule: &str| Err(format!("`{text}` {rule}; write it like `https://github.com/acme/`"));
    let Some(rest) = text.strip_prefix("https://") else { return wrong("is not an https URL") };
    let host = rest.split('/').next().unwrap_or_default();
    let host_like = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-:".contains(&byte);
    if host.is_empty() || !host.bytes().all(host_like) {
        return wrong("does not name a host in lowercase letters, digits, dots and dashes");
    }
    if rest.contains(['?', '#', '\\', '%', '@', '*']) || rest.contains(char::is_whitespace) {
        return wrong("has a character that is not allowed here");
    }
    if rest.strip_suffix('/').unwrap_or(rest).split('/').any(|segment| ["", ".", ".."].contains(&segment)) {
        return wrong("has an empty segment or one of dots");
    }
    Ok(())
}

pub(super) fn not_empty(what: &str, text: &str) -> Result<(), String> {
    if text.trim().is_empty() { Err(format!("`{what}` is empty; write whose signature counts")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_covers_what_is_below_it_and_nothing_else() {
        let prefix = Subject::UrlPrefix("https://github.com/acme/".to_owned());
        for (subject, expected) in [
            ("https://github.com/acme/steps/.github/workflows/build.yml@refs/heads/main", true),
            ("https://github.com/acme/a", true),
            ("https://github.com/acme/", false),
            ("https://github.com/acme", false),
            ("https://github.com/acme-evil/steps", false),
            ("https://evil.example.com/?https://github.com/acme/steps", false),
            ("http://github.com/acme/steps", false),
            ("HTTPS://GITHUB.COM/ACME/steps", false),
            ("https://github.com/acme/../evil/steps", false),
            ("https://github.com/acme/%2e%2E/evil/steps", false),
            ("https://github.com/acme/..\\evil", false),
            ("https://github.com/acme/steps\nhttps://other", false),
        ] {
            assert_eq!(prefix.matches(subject), expected, "{subject}");
        }
        let exact = Subject::Equals("team@example.com".to_owned());
        assert!(exact.matches("team@example.com"));
        assert!(!exact.matches("team@example.com.evil.example") && !exact.matches("my-team@example.com"));
    }

    #[test]
    fn a_ref_is_exact_or_below_a_prefix() {
        let tags = GitRef::Prefix("refs/tags/".to_owned());
        assert!(tags.matches("refs/tags/v1.2") && !tags.matches("refs/heads/refs/tags/x"));
        let main = GitRef::Equals("refs/heads/main".to_owned());
        assert!(main.matches("refs/heads/main") && !main.matches("refs/heads/main2"));
        for wrong in [GitRef::Equals("main".to_owned()), GitRef::Prefix("refs/tags".to_owned())] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_prefix_that_could_cover_more_than_it_shows_is_refused() {
        Subject::UrlPrefix("https://github.com/acme/".to_owned()).check().unwrap();
        for wrong in [
            "",
            "/",
            "https://",
            "https:///",
            "https://github.com/acme",
            "http://github.com/acme/",
            "https://github.com/acme/../",
            "https://github.com//",
            "https://*.github.com/",
            "https://github.com/acme/*/",
            "https://user@github.com/acme/",
            "https://github.com/acme/?x=/",
            "https://GitHub.com/acme/",
        ] {
            assert!(Subject::UrlPrefix(wrong.to_owned()).check().is_err(), "{wrong}");
        }
    }
}
