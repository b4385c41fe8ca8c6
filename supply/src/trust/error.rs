//! Why a trust policy is refused.

use fettle_model::{canonical::NotCanonical, document};

/// Why a trust policy is refused.
#[derive(Debug, thiserror::Error)]
pub enum TrustPolicyError {
    /// It cannot be read.
    #[error("the trust policy cannot be read: {0}")]
    Document(#[source] document::DocumentError),
    /// It names no kind.
    #[error("the trust policy names no signer for any kind; add at least one of {}", super::check::KINDS)]
    Empty,
    /// A kind without rules: it would be unclear whether all or none is meant.
    #[error("the trust policy names no rule for `{0}`; add `allOf` or `anyOf`, or leave the kind out to trust nobody")]
    NoRules(&'static str),
    /// A list or map without entries: it would be unclear whether all or none is meant.
    #[error("the trust policy has an empty `{0}`; name {1}, or leave it out")]
    EmptyList(String, &'static str),
    /// A threshold that cannot be right.
    #[error("the trust policy wants {minimum} matches of the {rules} in `{place}`; write a number from 1 to {rules}")]
    Threshold {
        /// Where.
        place: String,
        /// What it says.
        minimum: usize,
        /// How many rules there are.
        rules: usize,
    },
    /// A threshold without a list.
    #[error("the trust policy has `minimumMatches` for `{0}` and no `anyOf` that it counts in; add `anyOf`")]
    ThresholdAlone(&'static str),
    /// More rules than anybody reads.
    #[error("the trust policy has {rules} rules for `{kind}`; {limit} are the most", limit = super::check::RULES_LIMIT)]
    TooMany {
        /// Which kind.
        kind: &'static str,
        /// How many.
        rules: usize,
    },
    /// One rule is wrong.
    #[error("the trust policy is wrong at `{place}`: {problem}")]
    Rule {
        /// Where.
        place: String,
        /// Which rule it breaks, and the fix.
        problem: String,
    },
    /// One signer twice.
    #[error("the trust policy names the signer of `{second}` for `{kind}` already as `{first}`; name each signer once")]
    Twice {
        /// Which kind.
        kind: &'static str,
        /// The earlier name.
        first: String,
        /// The later name.
        second: String,
    },
    /// Two rules with one name: nobody could tell which was met.
    #[error("the trust policy has two rules `{name}` for `{kind}`; give each a name of its own")]
    SameName {
        /// Which kind.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// It cannot be written in the one form that is signed.
    #[error("the trust policy has no canonical form")]
    NotCanonical(#[source] NotCanonical),
}
