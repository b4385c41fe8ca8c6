//! Names of crates.

use std::{fmt, str::FromStr};

/// Words that no crate can be called: keywords of the language, and names that cargo or the SDK take.
const TAKEN: [&str; 59] = [
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "build",
    "const",
    "continue",
    "core",
    "crate",
    "deps",
    "do",
    "dyn",
    "else",
    "enum",
    "examples",
    "extern",
    "false",
    "fettle-step",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "incremental",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "where",
    "while",
];

/// The name of a crate, and of its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrateName(String);

impl CrateName {
    /// As in `Cargo.toml`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As in Rust, and in the component's file name.
    #[must_use]
    pub fn library(&self) -> String {
        self.0.replace('-', "_")
    }
}

impl FromStr for CrateName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_form = text.len() <= 64
            && text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase())
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte));
        if !is_form {
            return Err(
                "a crate's name starts with a small letter, then has small letters, digits, `-` and `_`, at most \
                        64; like `node-greeting`"
                    .to_owned(),
            );
        }
        if TAKEN.contains(&text) || TAKEN.contains(&text.replace('_', "-").as_str()) {
            return Err(format!(
                "`{text}` means something to Rust or to cargo already; choose another, like `{text}-step`"
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for CrateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_called_what_cargo_and_rust_can_read() {
        for good in ["node-greeting", "a", "a1_b-c"] {
            assert_eq!(good.parse::<CrateName>().unwrap().as_str(), good);
        }
        assert_eq!("a-b".parse::<CrateName>().unwrap().library(), "a_b");
        let long = "a".repeat(65);
        for bad in ["", "1a", "A", "a.b", "../a", "a/b", "-a", "ä", "a b", "test", "fn", "fettle_step", &long] {
            let error = bad.parse::<CrateName>().unwrap_err();
            assert!(error.contains("like `"), "{bad}: {error}");
        }
    }
}
