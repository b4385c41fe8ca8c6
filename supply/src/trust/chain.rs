//! Why an artifact is trusted or not: what each of its signatures is, and what it counted for.

use std::fmt;

use serde::Serialize;

use crate::kind::ArtifactKind;

/// What was found out about one signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which one, in the order in which they were found; 1 is the first.
    pub signature: usize,
    /// Who made it, where that is proven.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signer: Option<String>,
    /// The rule that it counted for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted_for: Option<String>,
    /// Why it counted for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Everything that a verdict rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Chain {
    /// As what the artifact was asked for.
    pub kind: ArtifactKind,
    /// What the trust policy wants for that kind.
    pub needed: String,
    /// Every signature, one after the other.
    pub findings: Vec<Finding>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "signature {}", self.signature)?;
        if let Some(signer) = &self.signer {
            write!(f, " by {signer}")?;
        }
        match (&self.counted_for, &self.reason) {
            (Some(rule), _) => write!(f, " counts for `{rule}`"),
            (None, Some(reason)) => write!(f, ": {reason}"),
            (None, None) => Ok(()),
        }
    }
}

/// `signature 1 ...; signature 2 ...`
impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, finding) in self.findings.iter().enumerate() {
            write!(f, "{}{finding}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}
