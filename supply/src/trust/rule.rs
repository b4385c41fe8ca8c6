//! One rule: who must have signed, and what the signature must say.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::{
    pattern::{self, GitRef, Subject},
    policy::present,
};
use crate::{
    key::PublicKey,
    signature::{Signed, Signer, Workflow},
};

/// What a signature must say.
pub(super) type Annotations = Option<BTreeMap<String, String>>;

/// Whose signature counts. Met by one signature as a whole, never by parts of several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum Rule {
    /// Whoever holds the private half of a key.
    PublicKey {
        /// For messages and audit.
        name: String,
        /// PEM.
        key: PublicKey,
        /// What the signature must say.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        annotations: Annotations,
    },
    /// Whoever an identity provider vouched for.
    Keyless {
        /// For messages and audit.
        name: String,
        /// The identity provider, exactly.
        issuer: String,
        /// Whom it vouched for.
        subject: Subject,
        /// What the signature must say.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        annotations: Annotations,
    },
    /// A workflow of a source repository.
    CiWorkflow {
        /// For messages and audit.
        name: String,
        /// The identity provider, exactly.
        issuer: String,
        /// Who owns the repository, as a URL: `https://github.com/acme`.
        owner: String,
        /// The repository, as a URL: `https://github.com/acme/steps`.
        repository: String,
        /// The branch or tag.
        #[serde(rename = "ref")]
        reference: GitRef,
        /// What the signature must say.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        annotations: Annotations,
    },
}

impl Rule {
    pub(super) fn name(&self) -> &str {
        let (Self::PublicKey { name, .. } | Self::Keyless { name, .. } | Self::CiWorkflow { name, .. }) = self;
        name
    }

    pub(super) const fn key(&self) -> Option<&PublicKey> {
        match self {
            Self::PublicKey { key, .. } => Some(key),
            Self::Keyless { .. } | Self::CiWorkflow { .. } => None,
        }
    }

    pub(super) const fn annotations(&self) -> &Annotations {
        let (Self::PublicKey { annotations, .. }
        | Self::Keyless { annotations, .. }
        | Self::CiWorkflow { annotations, .. }) = self;
        annotations
    }

    /// Whether two rules name the same signer, under whatever name.
    pub(super) fn is_same_signer(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::PublicKey { key: one, .. }, Self::PublicKey { key: two, .. }) => one == two,
            (Self::Keyless { issuer: one, subject: first, .. }, Self::Keyless { issuer: two, subject: second, .. }) => {
                (one, first) == (two, second)
            }
            (
                Self::CiWorkflow { issuer: one, repository: first, reference: a, .. },
                Self::CiWorkflow { issuer: two, repository: second, reference: b, .. },
            ) => (one, first, a) == (two, second, b),
            _ => false,
        }
    }

    /// # Errors
    /// What is wrong with it, as a sentence.
    pub(super) fn check(&self) -> Result<(), String> {
        pattern::not_empty("name", self.name())?;
        if self.annotations().as_ref().is_some_and(BTreeMap::is_empty) {
            return Err("`annotations` is empty; name what the signature must say, or leave it out".to_owned());
        }
        match self {
            Self::PublicKey { .. } => Ok(()),
            Self::Keyless { issuer, subject, .. } => {
                pattern::url(issuer)?;
                subject.check()
            }
            Self::CiWorkflow { issuer, owner, repository, reference, .. } => {
                for one in [issuer, owner, repository] {
                    pattern::url(one)?;
                }
                let name = repository.strip_prefix(owner.as_str()).and_then(|rest| rest.strip_prefix('/'));
                if name.is_none_or(str::is_empty) {
                    return Err(format!(
                        "the repository `{repository}` is not below its owner `{owner}`; write both as URLs, like \
                         `https://github.com/acme` and `https://github.com/acme/steps`"
                    ));
                }
                reference.check()
            }
        }
    }

    /// Whether this is the signer that the rule names.
    pub(super) fn names(&self, signer: &Signer) -> bool {
        match (self, signer) {
            (Self::PublicKey { key, .. }, Signer::Key(id)) => key.id() == *id,
            (Self::Keyless { issuer: expected, subject: pattern, .. }, Signer::Identity { issuer, subject, .. }) => {
                expected == issuer && pattern.matches(subject)
            }
            (
                Self::CiWorkflow { issuer: expected, owner, repository, reference, .. },
                Signer::Identity { issuer, workflow: Some(workflow), .. },
            ) => {
                let Workflow { owner: their_owner, repository: theirs, reference: their_reference } = workflow;
                expected == issuer
                    && repository == theirs
                    && their_owner.as_ref().is_none_or(|theirs| owner == theirs)
                    && their_reference.as_ref().is_some_and(|theirs| reference.matches(theirs))
            }
            _ => false,
        }
    }

    /// The first thing that the signature ought to say and does not.
    pub(super) fn unsaid(&self, signed: &Signed) -> Option<String> {
        self.annotations().iter().flatten().find_map(|(name, expected)| match signed.annotations.get(name) {
            Some(found) if found == expected => None,
            Some(found) => Some(format!("it says `{name}={found}`, and the rule wants `{name}={expected}`")),
            None => Some(format!("it says no `{name}`, and the rule wants `{name}={expected}`")),
        })
    }
}

/// The rule as people read it: `platform-team` (the key sha256:...).
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` (", self.name())?;
        match self {
            Self::PublicKey { key, .. } => write!(f, "the key {}", key.id())?,
            Self::Keyless { issuer, subject, .. } => write!(f, "{}, vouched for by `{issuer}`", subject.shown())?,
            Self::CiWorkflow { issuer, repository, reference, .. } => {
                let reference = reference.shown();
                write!(f, "workflows of `{repository}` at {reference}, vouched for by `{issuer}`")?;
            }
        }
        for (name, value) in self.annotations().iter().flatten() {
            write!(f, ", saying `{name}={value}`")?;
        }
        f.write_str(")")
    }
}
