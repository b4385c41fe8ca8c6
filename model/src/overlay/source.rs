//! Where artifacts may come from.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A place, or with `/*` at its end everything below one: `registry.internal:5000/models/*`,
/// `https://pypi.internal/simple/*`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Source(String);

/// Why a text is no source.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "`{0}` is no artifact source: write `host:port/repository`, or a URL without query, in visible ASCII; `/*` at the \
     end stands for all below"
)]
pub struct ParseSourceError(String);

/// Characters of a source, at most.
const LENGTH: usize = 300;

impl Source {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What all places of it begin with, its slash included; none for a single place.
    fn below(&self) -> Option<&str> {
        self.0.strip_suffix('*')
    }

    /// Whether a place (`host:port/repository`, or a URL) is this one or below it.
    #[must_use]
    pub fn covers(&self, place: &str) -> bool {
        // What a server would resolve to another place is below nothing.
        let plain = !place.split('/').any(|part| part == "." || part == "..") && !place.contains(['%', '\\']);
        plain && self.below().map_or(self.0 == place, |prefix| place.len() > prefix.len() && place.starts_with(prefix))
    }

    /// What both cover; none when there is no such place.
    #[must_use]
    pub fn and<'a>(&'a self, other: &'a Self) -> Option<&'a Self> {
        let within = |narrow: &Self, wide: &Self| match (narrow.below(), wide.below()) {
            (Some(narrow), Some(wide)) => narrow.starts_with(wide),
            (None, _) => wide.covers(&narrow.0),
            (Some(_), None) => false,
        };
        if within(self, other) {
            return Some(self);
        }
        within(other, self).then_some(other)
    }
}

impl FromStr for Source {
    type Err = ParseSourceError;

    fn from_str(text: &str) -> Result<Self, ParseSourceError> {
        let place = text.strip_suffix("/*").unwrap_or(text);
        let rest = place.split_once("://").map_or(place, |(_, rest)| rest);
        let sound = text.len() <= LENGTH
            && text.bytes().all(|byte| byte.is_ascii_graphic())
            && !rest.contains(['*', '?', '#', '%', '\\', '@'])
            && rest.split('/').all(|part| !matches!(part, "" | "." | ".."))
            && text.contains('/');
        if sound { Ok(Self(text.to_owned())) } else { Err(ParseSourceError(text.chars().take(LENGTH).collect())) }
    }
}

impl TryFrom<String> for Source {
    type Error = ParseSourceError;

    fn try_from(text: String) -> Result<Self, ParseSourceError> {
        text.parse()
    }
}

impl From<Source> for String {
    fn from(source: Source) -> Self {
        source.0
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        text.parse().unwrap()
    }

    #[test]
    fn a_prefix_keeps_its_slash_and_climbs_nowhere() {
        let models = source("r:5000/models/*");
        assert!(models.covers("r:5000/models/llama") && models.covers("r:5000/models/a/b"));
        let others =
            ["r:5000/models", "r:5000/models/", "r:5000/models-evil/a", "r:5000/models/../x", "r:5000/models/%2e"];
        for other in others {
            assert!(!models.covers(other), "{other}");
        }
        assert!(source("r:5000/*").covers("r:5000/models/llama") && !source("r:50/*").covers("r:5000/a"));
        assert!(source("r:5000/one").covers("r:5000/one") && !source("r:5000/one").covers("r:5000/one/two"));
    }

    #[test]
    fn what_two_sources_share_is_the_narrower_one() {
        let (all, models, one) = (source("r/*"), source("r/models/*"), source("r/models/llama"));
        for (first, second, shared) in
            [(&all, &models, Some(&models)), (&models, &one, Some(&one)), (&one, &one, Some(&one))]
        {
            assert_eq!((first.and(second), second.and(first)), (shared, shared));
        }
        assert_eq!(models.and(&source("r/tools/*")), None);
        assert_eq!(one.and(&source("r/models/other")), None);
    }

    #[test]
    fn what_is_no_source_is_refused() {
        for good in ["https://pypi.internal/simple/*", "localhost:5000/models/*", "s3://bucket/*", "r/a"] {
            assert_eq!(source(good).to_string(), good);
        }
        let long = "r/".repeat(200);
        for bad in ["", "*", "r", "r/*/x", "r/../x", "r//x", "r/a b", "https://u@h/x", "https://h/x?y", "r/é", &long] {
            assert!(bad.parse::<Source>().is_err(), "{bad}");
        }
    }
}
