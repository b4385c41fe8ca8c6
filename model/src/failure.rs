//! Why something did not work, and what may be done about it.

use serde::{Deserialize, Serialize};

/// What may be done about a failure. Only `Transient` is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The input is wrong; the same input fails again.
    InvalidInput,
    /// A capability, a signature or a policy refused it.
    Denied,
    /// A condition of the moment.
    Transient,
    /// It failed and would fail again.
    Permanent,
    /// Nobody can say whether the effect happened. A person decides.
    Unknown,
    /// The operation was canceled.
    Canceled,
}

/// A failure as it is journaled, reported and shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} [{code}]")]
pub struct Failure {
    /// What may be done about it.
    pub class: FailureClass,
    /// Stable, lowercase, dotted: `limit.memory`.
    pub code: String,
    /// One sentence: what failed, on what, and what to do.
    pub message: String,
}

impl Failure {
    /// A failure of this class.
    pub fn new(class: FailureClass, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { class, code: code.into(), message: message.into() }
    }

    /// Whether another attempt may be made.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.class == FailureClass::Transient
    }
}
