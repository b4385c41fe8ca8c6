//! Errors that the plane answers (RFC 9457).

use fettle_model::violation::Violation;
use serde::{Deserialize, Serialize};

/// A problem document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The HTTP status.
    #[serde(default)]
    pub status: u16,
    /// Stable and dotted.
    #[serde(default)]
    pub code: String,
    /// What is wrong.
    #[serde(default)]
    pub detail: String,
    /// Everything that is wrong with the input, each at its place.
    #[serde(default)]
    pub violations: Vec<Violation>,
}

impl Problem {
    /// Reads an answer; one that is no problem document becomes one.
    #[must_use]
    pub fn read(status: u16, body: &[u8]) -> Self {
        match serde_json::from_slice::<Self>(body) {
            Ok(problem) if !problem.detail.is_empty() => Self { status, ..problem },
            Ok(_) | Err(_) => {
                let text = String::from_utf8_lossy(body);
                let line: String = text.lines().next().unwrap_or_default().chars().take(200).collect();
                let detail = if line.is_empty() { "nothing more".to_owned() } else { line };
                Self { status, code: String::new(), detail, violations: Vec::new() }
            }
        }
    }
}
