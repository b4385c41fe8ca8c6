//! What a signature says, once it is believed.

use std::{
    collections::BTreeMap,
    fmt,
    hash::{Hash, Hasher},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::key::KeyId;

/// A signature whose cryptography holds and whose subject is the artifact it was checked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed {
    /// Who signed.
    pub signer: Signer,
    /// What was signed along with the artifact's digest.
    pub annotations: BTreeMap<String, String>,
    /// When a transparency log or a timestamp authority saw the signature, if that is proven.
    pub integrated_time: Option<Timestamp>,
}

/// Who signed. Two are the same signer when their keys are, or their issuers and subjects; through
/// which workflow somebody signed does not make them another.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signer {
    /// Whoever holds the private half of a key.
    Key(KeyId),
    /// Whoever an identity provider vouched for, as a certificate says.
    Identity {
        /// The identity provider.
        issuer: String,
        /// Whom it vouched for: an e-mail address or a URL.
        subject: String,
        /// The CI workflow, for identities of such.
        workflow: Option<Workflow>,
    },
}

/// Which CI workflow signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workflow {
    /// Who owns the source repository, as a URL: `https://github.com/acme`.
    pub owner: Option<String>,
    /// The source repository, as a URL: `https://github.com/acme/steps`.
    pub repository: String,
    /// The branch or tag: `refs/heads/main`.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
}

impl Signer {
    fn identity(&self) -> (Option<&KeyId>, &str, &str) {
        match self {
            Self::Key(key) => (Some(key), "", ""),
            Self::Identity { issuer, subject, .. } => (None, issuer, subject),
        }
    }
}

impl PartialEq for Signer {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Signer {}

impl Hash for Signer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl PartialOrd for Signer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Signer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.identity().cmp(&other.identity())
    }
}

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => write!(f, "the key {key}"),
            Self::Identity { issuer, subject, .. } => write!(f, "`{subject}`, vouched for by `{issuer}`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::key::SigningKey;

    #[test]
    fn one_identity_through_two_workflows_is_one_signer() {
        let signer = |subject: &str, repository: Option<&str>| Signer::Identity {
            issuer: "https://issuer.example.com".to_owned(),
            subject: subject.to_owned(),
            workflow: repository.map(|repository| Workflow {
                owner: None,
                repository: repository.to_owned(),
                reference: None,
            }),
        };
        let key = Signer::Key(SigningKey::generate().unwrap().public().id());
        let all = [signer("a", None), signer("a", Some("https://example.com/x")), signer("b", None), key.clone(), key];
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 3);
        assert_eq!(all[0], all[1]);
        assert_ne!(all[0], all[2]);
    }
}
