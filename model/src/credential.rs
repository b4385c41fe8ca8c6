//! Credentials: what they are for, and which a step may have minted. The secret itself is nowhere in the model.
//!
//! Types and rules are those of seed 001, sections 4.5 and 7.3.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{name::Label, reference::Reference};

/// What kind of credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialType {
    /// Pulls one artifact from a registry. Scope: `host:port/repository@sha256:<hex>`.
    OciPull,
    /// Reads one object from S3. Scope: `bucket/key`.
    S3Read,
    /// Reads one object from Google Cloud Storage. Scope: `bucket/object`.
    GcsRead,
    /// Reads one repository of Hugging Face. Scope: `owner/name`.
    HfToken,
    /// Lets this node join a cluster, once. Scope: the cluster's name.
    ClusterJoinToken,
}

/// What a credential is wanted for: its type and the one thing that it opens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Unchecked", into = "Unchecked")]
pub struct Intent {
    credential_type: CredentialType,
    scope: String,
}

/// An intent as a document writes it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    credential_type: CredentialType,
    scope: String,
}

/// Which credentials may be minted: one type, and one scope or all below a prefix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialRule {
    /// The type.
    #[serde(rename = "type")]
    pub credential_type: CredentialType,
    /// A scope; `<prefix>/*` stands for all below the prefix. Of `oci_pull`, a repository without its digest. In a
    /// node's ceiling, `*` stands for every scope.
    pub scope: String,
}

/// Why a scope is none of its type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{scope}` is no scope of `{credential_type}`: {rule}")]
pub struct IntentError {
    credential_type: CredentialType,
    scope: String,
    rule: &'static str,
}

/// There is no such type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no type of credential; there are {all}", all = CredentialType::ALL.map(CredentialType::name).join(", "))]
pub struct UnknownCredentialType(String);

/// The most bytes of a scope: an object's key may have 1024 (S3), its bucket 63.
const LONGEST_SCOPE: usize = 1100;

impl CredentialType {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::OciPull, Self::S3Read, Self::GcsRead, Self::HfToken, Self::ClusterJoinToken];

    /// The name in documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OciPull => "oci_pull",
            Self::S3Read => "s3_read",
            Self::GcsRead => "gcs_read",
            Self::HfToken => "hf_token",
            Self::ClusterJoinToken => "cluster_join_token",
        }
    }

    /// What a credential of this type can consist of. One that reads an object is either an address or keys of a
    /// session.
    #[must_use]
    pub const fn parts(self) -> &'static [&'static str] {
        match self {
            Self::S3Read => &["url", "access_key_id", "secret_access_key", "session_token"],
            Self::GcsRead => &["url", "token"],
            Self::OciPull | Self::HfToken | Self::ClusterJoinToken => &["token"],
        }
    }

    const fn rule(self) -> &'static str {
        match self {
            Self::OciPull => "write `host:port/repository@sha256:<64 hexadecimal digits>`",
            Self::S3Read => "write `bucket/key`",
            Self::GcsRead => "write `bucket/object`",
            Self::HfToken => "write `owner/name`",
            Self::ClusterJoinToken => "write the cluster's name: letters, digits, `-`, `_` and `.`",
        }
    }

    fn is_scope(self, scope: &str) -> bool {
        let sound = scope.len() <= LONGEST_SCOPE && !scope.chars().any(|c| c.is_control() || c.is_whitespace());
        sound
            && match self {
                Self::OciPull => scope.parse::<Reference>().is_ok(),
                Self::S3Read | Self::GcsRead => is_object(scope),
                Self::HfToken => scope.split_once('/').is_some_and(|(owner, name)| is_name(owner) && is_name(name)),
                Self::ClusterJoinToken => scope.parse::<Label>().is_ok(),
            }
    }
}

/// `bucket/key`: a bucket's name is 3 to 63 of `a-z0-9.-` (S3; `_` with GCS), and a key has no part that a path
/// would read as another place.
fn is_object(scope: &str) -> bool {
    let in_bucket = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
    scope.split_once('/').is_some_and(|(bucket, key)| {
        (3..=63).contains(&bucket.len())
            && bucket.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && bucket.chars().all(in_bucket)
            && key.split('/').all(|part| !matches!(part, "" | "." | ".."))
    })
}

fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=96).contains(&text.len()) && text.chars().all(plain) && !matches!(text, "." | "..")
}

impl Intent {
    /// Reads a scope of this type.
    ///
    /// # Errors
    /// When it is none, with the form that one has.
    pub fn new(credential_type: CredentialType, scope: impl Into<String>) -> Result<Self, IntentError> {
        let scope = scope.into();
        if credential_type.is_scope(&scope) {
            return Ok(Self { credential_type, scope });
        }
        let scope = scope.chars().filter(|c| !c.is_control()).take(200).collect();
        Err(IntentError { credential_type, scope, rule: credential_type.rule() })
    }

    /// The type.
    #[must_use]
    pub const fn credential_type(&self) -> CredentialType {
        self.credential_type
    }

    /// What it opens.
    #[must_use]
    pub fn scope(&self) -> &str {
        &self.scope
    }

    /// The artifact that it pulls, if it pulls one.
    #[must_use]
    pub fn artifact(&self) -> Option<Reference> {
        (self.credential_type == CredentialType::OciPull).then(|| self.scope.parse().ok()).flatten()
    }

    /// What rules are about: of an artifact, the repository.
    fn place(&self) -> &str {
        match self.credential_type {
            CredentialType::OciPull => self.scope.split('@').next().unwrap_or_default(),
            _ => &self.scope,
        }
    }
}

impl CredentialRule {
    /// Whether such a credential may be minted.
    #[must_use]
    pub fn covers(&self, intent: &Intent) -> bool {
        self.credential_type == intent.credential_type && covers(&self.scope, intent.place())
    }

    /// Whether all that `other` allows is allowed.
    #[must_use]
    pub fn covers_all_of(&self, other: &Self) -> bool {
        self.credential_type == other.credential_type
            && (self.scope == other.scope || covers(&self.scope, &other.scope))
    }
}

/// Whether a scope of a rule, which may end in `/*`, covers a place.
fn covers(rule: &str, place: &str) -> bool {
    match rule.strip_suffix('*') {
        Some(prefix) if prefix.is_empty() || prefix.ends_with('/') => {
            place.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty())
        }
        _ => rule == place,
    }
}

impl fmt::Display for CredentialType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CredentialType {
    type Err = UnknownCredentialType;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|known| known.name() == text);
        known.ok_or_else(|| UnknownCredentialType(text.chars().take(64).collect()))
    }
}

/// `oci_pull host:port/repository@sha256:...`
impl fmt::Display for Intent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.credential_type, self.scope)
    }
}

/// `oci_pull host:port/models/*`
impl fmt::Display for CredentialRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.credential_type, self.scope)
    }
}

impl FromStr for CredentialRule {
    type Err = UnknownCredentialType;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (credential_type, scope) = text.split_once(' ').unwrap_or((text, ""));
        Ok(Self { credential_type: credential_type.parse()?, scope: scope.to_owned() })
    }
}

impl TryFrom<Unchecked> for Intent {
    type Error = IntentError;

    fn try_from(unchecked: Unchecked) -> Result<Self, Self::Error> {
        Self::new(unchecked.credential_type, unchecked.scope)
    }
}

impl From<Intent> for Unchecked {
    fn from(intent: Intent) -> Self {
        Self { credential_type: intent.credential_type, scope: intent.scope }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn intent(text: &str) -> Result<Intent, IntentError> {
        let (credential_type, scope) = text.split_once(' ').unwrap();
        Intent::new(credential_type.parse().unwrap(), scope.replace("DIGEST", DIGEST))
    }

    #[test]
    fn a_scope_names_one_thing_of_its_type() {
        for (text, is_one) in [
            ("oci_pull r.internal:5000/models/llama@DIGEST", true),
            ("oci_pull r.internal:5000/models/llama:latest", false),
            ("oci_pull r.internal:5000/models/llama", false),
            ("oci_pull r.internal:5000/models/*@DIGEST", false),
            ("s3_read weights/llama/1.safetensors", true),
            ("s3_read weights/../other", false),
            ("s3_read weights//a", false),
            ("s3_read weights/", false),
            ("s3_read weights", false),
            ("s3_read We/a", false),
            ("s3_read weights/a b", false),
            ("s3_read weights/a\nb", false),
            ("gcs_read weights_1/a", true),
            ("hf_token meta/llama-3", true),
            ("hf_token meta/llama/3", false),
            ("hf_token meta/..", false),
            ("cluster_join_token training", true),
            ("cluster_join_token training/other", false),
            ("cluster_join_token ", false),
        ] {
            let read = intent(text);
            assert_eq!(read.is_ok(), is_one, "{text}");
            if let Err(error) = read {
                assert!(error.to_string().contains(": write "), "{error}");
            }
        }
        assert!(Intent::new(CredentialType::S3Read, format!("weights/{}", "a".repeat(1100))).is_err());
    }

    #[test]
    fn a_rule_covers_its_scope_and_what_is_below_its_prefix() {
        let rule = |text: &str| text.parse::<CredentialRule>().unwrap();
        for (one, text, covered) in [
            ("oci_pull r:1/models/*", "oci_pull r:1/models/a@DIGEST", true),
            ("oci_pull r:1/models/*", "oci_pull r:1/models/a/b@DIGEST", true),
            ("oci_pull r:1/models/*", "oci_pull r:1/models-old/a@DIGEST", false),
            ("oci_pull r:1/models/*", "oci_pull r:2/models/a@DIGEST", false),
            ("oci_pull r:1/models/a", "oci_pull r:1/models/a@DIGEST", true),
            ("oci_pull r:1/models/a", "oci_pull r:1/models/ab@DIGEST", false),
            ("oci_pull r:1/models*", "oci_pull r:1/models/a@DIGEST", false),
            ("s3_read bucket/*", "s3_read bucket/a", true),
            ("s3_read bucket/*", "gcs_read bucket/a", false),
            ("s3_read bucket/a", "s3_read bucket/a", true),
            ("cluster_join_token training", "cluster_join_token training", true),
            ("cluster_join_token training", "cluster_join_token trainin", false),
            ("hf_token *", "hf_token a/b", true),
        ] {
            assert_eq!(rule(one).covers(&intent(text).unwrap()), covered, "{one} {text}");
        }
        for (wide, narrow, covered) in [
            ("s3_read bucket/*", "s3_read bucket/a/*", true),
            ("s3_read bucket/*", "s3_read bucket/*", true),
            ("s3_read bucket/a/*", "s3_read bucket/*", false),
            ("s3_read *", "s3_read bucket/*", true),
            ("s3_read *", "hf_token bucket/*", false),
            ("s3_read bucket/a", "s3_read bucket/*", false),
        ] {
            assert_eq!(rule(wide).covers_all_of(&rule(narrow)), covered, "{wide} {narrow}");
        }
    }

    #[test]
    fn an_unknown_type_is_an_error_that_lists_the_valid_ones() {
        let error = "ssh_key".parse::<CredentialType>().unwrap_err().to_string();
        assert!(error.contains("oci_pull, s3_read, gcs_read, hf_token, cluster_join_token"), "{error}");
        for known in CredentialType::ALL {
            assert_eq!(known.name().parse(), Ok(known));
            assert_eq!(serde_json::to_value(known).unwrap(), known.name());
        }
    }

    #[test]
    fn a_document_cannot_hold_a_scope_that_is_none() {
        let read = |text: &str| serde_json::from_str::<Intent>(text);
        assert!(read(r#"{"credential_type": "s3_read", "scope": "bucket/a"}"#).is_ok());
        assert!(read(r#"{"credential_type": "s3_read", "scope": "../a"}"#).is_err());
    }
}
