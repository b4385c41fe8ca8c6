//! Web addresses as grants and requests write them: in one spelling, so that what was compared is what is
//! connected to.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use url::Url;

use crate::grant::ANY;

/// A URL that is written as it is read. Every other spelling of the same place is an error.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WebUrl(Url);

/// Which rule a URL breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WebUrlError(String);

impl WebUrl {
    /// For whoever sends the request.
    #[must_use]
    pub const fn as_url(&self) -> &Url {
        &self.0
    }

    /// The URL up to its last slash: the smallest place that a grant could name for it.
    #[must_use]
    pub fn directory(&self) -> String {
        let path = self.0.path();
        let end = path.rfind('/').map_or(path.len(), |slash| slash + 1);
        let mut url = self.0.clone();
        url.set_query(None);
        url.set_path(path.get(..end).unwrap_or_default());
        url.into()
    }

    /// Whether `other` is at or below this one: same scheme, host and port, and a path that starts with
    /// this one's.
    fn is_above(&self, other: &Self) -> bool {
        let place =
            |url: &Url| (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port_or_known_default());
        place(&self.0) == place(&other.0) && other.0.path().starts_with(self.0.path())
    }
}

impl FromStr for WebUrl {
    type Err = WebUrlError;

    fn from_str(text: &str) -> Result<Self, WebUrlError> {
        let shown: String = text.chars().take(200).collect();
        let wrong = |rule: &str| WebUrlError(format!("`{shown}` {rule}"));
        let url = Url::parse(text).map_err(|error| wrong(&format!("is not a URL: {error}")))?;
        if !["http", "https"].contains(&url.scheme()) {
            return Err(wrong("has another scheme than http or https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(WebUrlError(
                "a URL names no user and no password; leave out what stands before `@`".to_owned(),
            ));
        }
        if url.fragment().is_some() {
            return Err(wrong("has a fragment; leave out `#` and what follows"));
        }
        if url.host_str().is_none_or(|host| host.is_empty() || host.ends_with('.')) {
            return Err(wrong("has a host that ends with a dot, or none; leave the dot out"));
        }
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-._[]:".contains(letter);
        if !url.host_str().is_some_and(|host| host.chars().all(is_plain)) {
            return Err(wrong("has a host with other characters than letters, digits, dots and dashes"));
        }
        let path = url.path().to_ascii_lowercase();
        if ["%2e", "%2f", "%5c", "//"].iter().any(|hidden| path.contains(hidden)) {
            return Err(wrong("hides a dot or a slash in its path; write plain names"));
        }
        if url.as_str() != text {
            return Err(wrong(&format!("is read as `{url}`; write that")));
        }
        Ok(Self(url))
    }
}

impl TryFrom<String> for WebUrl {
    type Error = WebUrlError;

    fn try_from(text: String) -> Result<Self, WebUrlError> {
        text.parse()
    }
}

impl From<WebUrl> for String {
    fn from(url: WebUrl) -> Self {
        url.0.into()
    }
}

impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where requests may go: a URL that ends with a slash and all below it, or `*` in a node's ceiling.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum WebPrefix {
    /// Everywhere. Only in a ceiling.
    Any,
    /// This and all below.
    Below(WebUrl),
}

impl WebPrefix {
    /// Whether a request to `url` is within.
    #[must_use]
    pub fn covers(&self, url: &WebUrl) -> bool {
        match self {
            Self::Any => true,
            Self::Below(prefix) => prefix.is_above(url),
        }
    }

    /// Whether everything within `other` is within this one.
    #[must_use]
    pub fn covers_all_of(&self, other: &Self) -> bool {
        match other {
            Self::Any => *self == Self::Any,
            Self::Below(url) => self.covers(url),
        }
    }
}

impl TryFrom<String> for WebPrefix {
    type Error = WebUrlError;

    fn try_from(text: String) -> Result<Self, WebUrlError> {
        if text == ANY {
            return Ok(Self::Any);
        }
        let url: WebUrl = text.parse()?;
        if url.0.query().is_some() || !url.0.path().ends_with('/') {
            return Err(WebUrlError(format!(
                "`{text}` does not end with a slash; write it, so that `/v1` does not mean `/v10` too"
            )));
        }
        Ok(Self::Below(url))
    }
}

impl From<WebPrefix> for String {
    fn from(prefix: WebPrefix) -> Self {
        prefix.to_string()
    }
}

impl fmt::Display for WebPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str(ANY),
            Self::Below(url) => url.fmt(f),
        }
    }
}

/// A method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// Reads.
    Get,
    /// Reads no body.
    Head,
    /// Whatever the server says it does.
    Post,
    /// Replaces.
    Put,
    /// Changes.
    Patch,
    /// Removes.
    Delete,
}

impl Method {
    /// As it is sent.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_one_spelling() {
        for text in [
            "https://api.example.com/",
            "http://10.0.0.1:8080/a/b?c=d",
            "https://[::1]/",
            "https://xn--bcher-kva.example/",
        ] {
            assert_eq!(text.parse::<WebUrl>().unwrap().to_string(), text);
        }
        for (text, rule) in [
            ("https://api.example.com", "write that"),
            ("https://API.example.com/", "is read as `https://api.example.com/`"),
            ("https://api.example.com:443/", "is read as `https://api.example.com/`"),
            ("https://api.example.com./", "ends with a dot"),
            ("http://2130706433/", "is read as `http://127.0.0.1/`"),
            ("http://0x7f.1/", "is read as `http://127.0.0.1/`"),
            ("http://0177.0.0.1/", "is read as `http://127.0.0.1/`"),
            ("http://127.1/", "is read as `http://127.0.0.1/`"),
            ("http://[::ffff:127.0.0.1]/", "is read as `http://[::ffff:7f00:1]/`"),
            ("https://bücher.example/", "is read as `https://xn--bcher-kva.example/`"),
            ("https://ⓔxample.com/", "is read as `https://example.com/`"),
            ("https://good.example@evil.example/", "no user and no password"),
            ("https://:secret@evil.example/", "no user and no password"),
            ("https://good.example\\@evil.example/", "is read as"),
            ("https://good.example/a/../b/", "is read as `https://good.example/b/`"),
            ("https://good.example/a/%2e%2e/b/", "is read as"),
            ("https://good.example/a/..%2fb/", "hides a dot or a slash"),
            ("https://good.example//b/", "hides a dot or a slash"),
            ("https://good.example/a\r\nHost: evil", "is read as"),
            ("https://good.exa\tmple/", "is read as"),
            (" https://good.example/", "is read as"),
            ("https://good.example/#a", "has a fragment"),
            ("ftp://good.example/", "another scheme"),
            ("file:///etc/passwd", "another scheme"),
            ("good.example/", "is not a URL"),
            ("https:///", "is not a URL"),
            ("https://good.example:99999/", "is not a URL"),
            ("https://*.example.com/", "other characters"),
        ] {
            let error = text.parse::<WebUrl>().unwrap_err().to_string();
            assert!(error.contains(rule), "{text}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_prefix_ends_with_its_slash_and_covers_its_own_place_only() {
        let prefix = WebPrefix::try_from("https://api.example.com/v1/".to_owned()).unwrap();
        for (url, covered) in [
            ("https://api.example.com/v1/", true),
            ("https://api.example.com/v1/a?b=c", true),
            ("https://api.example.com/v10/", false),
            ("https://api.example.com/", false),
            ("http://api.example.com/v1/", false),
            ("https://api.example.com:8443/v1/", false),
            ("https://api.example.com.evil.example/v1/", false),
            ("https://evil.example/v1/", false),
        ] {
            assert_eq!(prefix.covers(&url.parse().unwrap()), covered, "{url}");
        }
        for wrong in ["https://api.example.com/v1", "https://api.example.com/v1/?a=b", "https://*.example.com/", "**"] {
            assert!(WebPrefix::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
