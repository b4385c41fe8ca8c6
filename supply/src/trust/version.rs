//! Versions of artifacts, as their signers state them.

use std::{cmp::Ordering, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The annotation of a signature that names what was signed: `file.render@v1`, `team-a/policy`.
pub const NAME_ANNOTATION: &str = "fettle.name";
/// The annotation of a signature that states the version of what was signed: `1.4.0`, `17`.
pub const VERSION_ANNOTATION: &str = "fettle.version";

const PARTS: usize = 4;

/// One to four numbers with dots between them. Missing numbers count as 0: `1.2` is `1.2.0`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version {
    numbers: [u64; PARTS],
    text: String,
}

/// Why a text is not a version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a version; write one to four numbers with dots between them, like `1.4.0` or `17`")]
pub struct ParseVersionError(String);

impl FromStr for Version {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseVersionError(text.chars().take(100).collect());
        let mut numbers = [0; PARTS];
        let mut parts = text.split('.');
        for (number, part) in numbers.iter_mut().zip(parts.by_ref()) {
            // `parse` alone would take a sign.
            if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(wrong());
            }
            *number = part.parse().map_err(|_| wrong())?;
        }
        if parts.next().is_some() {
            return Err(wrong());
        }
        Ok(Self { numbers, text: text.to_owned() })
    }
}

impl TryFrom<String> for Version {
    type Error = ParseVersionError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.text
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.numbers == other.numbers
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn versions_are_compared_as_numbers() {
        let ascending = ["0.9", "1", "1.0.1", "1.2", "1.10", "2.0.0.1", "17"];
        let versions: Vec<Version> = ascending.iter().map(|text| text.parse().unwrap()).collect();
        assert!(versions.is_sorted_by(|a, b| a < b));
        assert_eq!("1.2".parse::<Version>(), "1.2.0".parse());
        for wrong in ["", "v1", "1.", ".1", "1.2.3.4.5", "1.2-rc1", "+1", "-1", "1 ", "99999999999999999999"] {
            assert!(wrong.parse::<Version>().is_err(), "{wrong}");
        }
    }
}
