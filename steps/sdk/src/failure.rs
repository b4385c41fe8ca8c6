//! Why a step did not do what it was asked to.

use std::fmt;

use crate::text;

/// The longest code and the longest message, in bytes, of the contract.
const CODE_LIMIT: usize = 64;
const MESSAGE_LIMIT: usize = 4096;

/// What the host may do about a failure. Only `Transient` is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureClass {
    /// The input is wrong; the same input fails again.
    InvalidInput,
    /// A capability was refused; only another grant helps.
    Denied,
    /// A condition of the moment.
    Transient,
    /// It failed and would fail again.
    Permanent,
    /// Nobody can say whether the effect happened. A person decides.
    Unknown,
    /// The operation was canceled while the step ran.
    Canceled,
}

/// A failure, with a code for programs and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What may be done about it.
    pub class: FailureClass,
    /// Stable, lowercase, dotted: `template.undefined-variable`.
    pub code: String,
    /// One sentence: what failed, on what, and what to do.
    pub message: String,
}

impl Failure {
    /// A failure of this class. A code over 64 bytes and a message over 4 KiB are cut.
    pub fn new(class: FailureClass, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { class, code: text::cut(code.into(), CODE_LIMIT), message: text::cut(message.into(), MESSAGE_LIMIT) }
    }

    /// The input is wrong; the same input fails again.
    pub fn invalid_input(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(FailureClass::InvalidInput, code, message)
    }

    /// A capability was refused; only another grant helps.
    pub fn denied(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(FailureClass::Denied, code, message)
    }

    /// A condition of the moment: worth another try.
    pub fn transient(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(FailureClass::Transient, code, message)
    }

    /// It failed and would fail again.
    pub fn permanent(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(FailureClass::Permanent, code, message)
    }

    /// Nobody can say whether the effect happened. A person decides.
    pub fn unknown(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(FailureClass::Unknown, code, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.message, self.code)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_fits_the_contract_however_long_its_message() {
        let failure = Failure::permanent("c".repeat(100), "ä".repeat(4000));
        assert!(failure.code.len() == CODE_LIMIT);
        assert!(failure.message.len() <= MESSAGE_LIMIT && failure.message.ends_with('…'));
    }
}
