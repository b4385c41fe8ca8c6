//! Names that people choose: step kinds, operation types, step ids.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Why a text is not the name it should be.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{text}` is not {what}: {rule}")]
pub struct ParseNameError {
    text: String,
    what: &'static str,
    rule: &'static str,
}

fn is_word(text: &str) -> bool {
    text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

fn is_dotted(text: &str) -> bool {
    text.len() <= 100 && text.split('.').all(is_word)
}

fn is_version(text: &str) -> bool {
    text.strip_prefix('v').is_some_and(|digits| {
        !digits.is_empty()
            && digits.len() <= 6
            && !digits.starts_with('0')
            && digits.bytes().all(|b| b.is_ascii_digit())
    })
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = ParseNameError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let check: fn(&str) -> bool = $check;
                if check(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    let text = text.chars().take(100).collect();
                    Err(ParseNameError { text, what: $what, rule: $rule })
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = ParseNameError;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// A stable name of what a step does, with its major version: `artifact.pull_oci@v1`.
    StepKind,
    "a step kind",
    "write dotted lowercase words and a version, like `file.render@v1`",
    |text| text.split_once('@').is_some_and(|(name, version)| is_dotted(name) && is_version(version))
);

name!(
    /// The name of an operation, without its version: `model.artifact.stage`.
    OperationType,
    "an operation type",
    "write dotted lowercase words, like `model.artifact.stage`",
    is_dotted
);

name!(
    /// A version of an operation type or of a contract: `v1`.
    Version,
    "a version",
    "write `v` and a number from 1, like `v1`",
    is_version
);

name!(
    /// The name of a step in its definition. A CEL identifier, so that `steps.<id>` works.
    StepId,
    "a step id",
    "start with a lowercase letter; then lowercase letters, digits and `_`, at most 63",
    |text| text.len() <= 63 && is_word(text)
);

name!(
    /// The name of a command profile, a files root or a project: `nvidia_smi_health`.
    Label,
    "a name",
    "start with a lowercase letter or digit; then lowercase letters, digits, `_`, `-` and `.`, at most 63",
    |text| {
        text.len() <= 63
            && text.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-.".contains(&b))
            && !text.contains("..")
    }
);

impl StepKind {
    /// The part before the version: `file.render`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.split_once('@').map_or(self.0.as_str(), |(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_kinds_have_dotted_words_and_a_version() {
        for good in ["file.render@v1", "gpu.runtime.check@v12", "noop@v1"] {
            assert_eq!(good.parse::<StepKind>().unwrap().as_str(), good);
        }
        for bad in ["file.render", "file.render@1", "File@v1", "a..b@v1", "a@v0", "a@v01", "@v1", "a b@v1"] {
            assert!(bad.parse::<StepKind>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_error_says_what_to_write() {
        assert_eq!(
            "Pull".parse::<StepId>().unwrap_err().to_string(),
            "`Pull` is not a step id: start with a lowercase letter; then lowercase letters, digits and `_`, at most 63"
        );
        assert!("a..b".parse::<Label>().is_err());
        assert!("..".parse::<Label>().is_err());
    }
}
