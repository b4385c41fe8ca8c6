//! Whose signatures count, per kind of artifact; and how such a policy is replaced by a newer one.
//!
//! | part | what |
//! |---|---|
//! | `policy`, `rule`, `pattern`, `check` | the document, read strictly |
//! | `compose` | policies made from keys, and with one key replaced |
//! | `evaluate`, `assignment`, `chain` | signatures to a verdict, with its reasons |
//! | `version` | what signatures say of versions |
//! | `source` | where the policy in force comes from, and when it changes |
//! | `rotation` | newer policies, each signed as the one before demands |

mod assignment;
mod chain;
mod check;
mod compose;
mod error;
mod evaluate;
mod pattern;
mod policy;
mod rotation;
mod rule;
mod source;
#[cfg(test)]
mod tests;
mod version;

pub use chain::{Chain, Finding};
pub use compose::{Quorum, Replaced};
pub use error::TrustPolicyError;
pub use policy::TrustPolicy;
pub use rotation::{Activation, RotationError};
pub use source::{Trust, TrustError, TrustFiles, TrustSource};
pub use version::{NAME_ANNOTATION, ParseVersionError, VERSION_ANNOTATION, Version};

pub(crate) use evaluate::{Accepted, Seen};
pub(crate) use rotation::Link;
