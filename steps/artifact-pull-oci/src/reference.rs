//! `host:port/repository@sha256:<hex>`.

use fettle_step::Failure;

/// An artifact, by digest.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reference<'a> {
    /// `host:port/repository`
    pub(crate) repository: &'a str,
    /// `sha256:<hex>`
    pub(crate) digest: &'a str,
}

impl<'a> Reference<'a> {
    /// Reads a reference; a tag is refused even beside a digest.
    pub(crate) fn parse(text: &'a str) -> Result<Self, Failure> {
        let refuse = |rule: &str| {
            let message = format!("the reference `{text}` {rule}; write `host:port/repository@sha256:<hex>`");
            Failure::invalid_input("reference.invalid", message)
        };
        let (place, digest) = text.split_once('@').map_or((text, None), |(place, digest)| (place, Some(digest)));
        let (host, path) = place.split_once('/').ok_or_else(|| refuse("names no repository"))?;
        if host.is_empty() || path.is_empty() {
            return Err(refuse("names no repository"));
        }
        if path.contains(':') {
            return Err(refuse("names a tag, and a tag can be moved"));
        }
        let digest = digest.ok_or_else(|| refuse("has no digest"))?;
        if !is_digest(digest) {
            return Err(refuse("does not end in a SHA-256 digest"));
        }
        Ok(Self { repository: place, digest })
    }
}

/// Whether `text` is `sha256:` and 64 lowercase hexadecimal digits.
pub(crate) fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:")
        .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_reference_is_a_repository_and_a_digest() {
        let text = format!("registry.test:5000/models/a@{DIGEST}");
        let expected = Reference { repository: "registry.test:5000/models/a", digest: DIGEST };
        assert_eq!(Reference::parse(&text), Ok(expected));
    }

    #[test]
    fn anything_else_is_refused_with_its_reason() {
        for (text, reason) in [
            ("registry.test:5000/a:v1".to_owned(), "names a tag"),
            (format!("registry.test:5000/a:v1@{DIGEST}"), "names a tag"),
            ("registry.test:5000/a".to_owned(), "has no digest"),
            (format!("registry.test:5000@{DIGEST}"), "names no repository"),
            (format!("/a@{DIGEST}"), "names no repository"),
            ("registry.test:5000/a@sha256:12".to_owned(), "does not end in a SHA-256 digest"),
            (format!("registry.test:5000/a@{}", DIGEST.to_uppercase()), "does not end in a SHA-256 digest"),
            (format!("registry.test:5000/a@{}", DIGEST.replace("256", "512")), "does not end in a SHA-256 digest"),
        ] {
            let failure = Reference::parse(&text).unwrap_err();
            assert!(failure.message.contains(reason), "{failure}");
        }
    }
}
