//! Versions made of numbers and dots.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

/// `580.65.06`, `12`: compared number by number; what is left out counts as 0.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Version {
    text: String,
    numbers: Vec<u32>,
}

impl Version {
    /// The version that `text` is, if it is one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let numbers = text.split('.').map(|part| part.parse().ok()).collect::<Option<Vec<u32>>>()?;
        Some(Self { text: text.to_owned(), numbers })
    }

    pub(crate) fn major(&self) -> u32 {
        self.number(0)
    }

    fn number(&self, index: usize) -> u32 {
        self.numbers.get(index).copied().unwrap_or_default()
    }

    /// Whether this is `other` or newer.
    pub(crate) fn is_at_least(&self, other: &Self) -> bool {
        let length = self.numbers.len().max(other.numbers.len());
        let parts = |version: &Self| (0..length).map(|index| version.number(index)).collect::<Vec<_>>();
        parts(self) >= parts(other)
    }
}

impl TryFrom<String> for Version {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("`{text}` is not a version; write numbers and dots, like \"580.65\""))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl JsonSchema for Version {
    fn schema_name() -> Cow<'static, str> {
        "Version".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9]{1,9}(\\.[0-9]{1,9})*$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_number_by_number() {
        for (left, right, expected) in [
            ("580.65.06", "580", true),
            ("580", "580.0.0", true),
            ("580.9", "580.65", false),
            ("1000", "999.9", true),
            ("525.60.13", "580", false),
        ] {
            let parse = |text| Version::parse(text).unwrap();
            assert_eq!(parse(left).is_at_least(&parse(right)), expected, "{left} {right}");
        }
        for bad in ["", "580.", "a", "5 8", "580-rc", "99999999999"] {
            assert!(Version::parse(bad).is_none(), "{bad}");
        }
    }
}
