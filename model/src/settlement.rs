//! What became of a step whose end nobody saw, and how that was found out (seed 001, 9.2c).

use serde::{Deserialize, Serialize};

/// Why nobody saw how a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interruption {
    /// The host stopped, or lost its lease, while the step ran.
    HostStopped,
    /// The host stopped the step: it took too long, or broke another limit.
    StepStopped,
    /// The step says of itself that it cannot tell.
    StepUnsure,
    /// The operation was canceled while the step ran.
    Canceled,
    /// A later step failed, and what was done is taken back.
    LaterFailure,
    /// Somebody asked what is true.
    Inquiry,
}

/// What turned out to be true of the step's effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// It was stopped before it could change anything.
    NotStarted,
    /// It happened.
    Finished,
    /// It did not happen.
    NotDone,
    /// It had happened, and was taken back.
    Undone,
    /// Nobody can say.
    Unknown,
}

/// What became of a step whose end nobody saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    /// Why nobody saw it.
    pub cause: Interruption,
    /// What is true.
    pub finding: Finding,
    /// Whether the step may not go on before a person has looked: its effect may not happen twice.
    #[serde(default)]
    pub needs_person: bool,
    /// How often the step's probe was asked.
    #[serde(default)]
    pub probes: u32,
    /// The person who decided, where no probe did; as `kind:id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// One sentence: what was found, and what to do.
    pub message: String,
}

/// The code of a failure that only a person can settle.
pub const INTERRUPTED: &str = "step.interrupted";

/// The code of a failure of which it is certain that the step's effect did not happen.
pub const NOT_DONE: &str = "step.not-done";

impl Interruption {
    /// The beginning of a sentence about it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::HostStopped => "the host stopped while this step ran",
            Self::StepStopped => "the step was stopped before it could say how it ended",
            Self::StepUnsure => "the step cannot tell how it ended",
            Self::Canceled => "the operation was canceled while this step ran",
            Self::LaterFailure => "a later step failed",
            Self::Inquiry => "somebody asked whether this step has happened",
        }
    }

    /// The name in documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HostStopped => "host_stopped",
            Self::StepStopped => "step_stopped",
            Self::StepUnsure => "step_unsure",
            Self::Canceled => "canceled",
            Self::LaterFailure => "later_failure",
            Self::Inquiry => "inquiry",
        }
    }
}

impl Finding {
    /// The name in documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotStarted => "not_started",
            Self::Finished => "finished",
            Self::NotDone => "not_done",
            Self::Undone => "undone",
            Self::Unknown => "unknown",
        }
    }

    /// What a person reads.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::NotStarted => "nothing was changed",
            Self::Finished => "it happened",
            Self::NotDone => "it did not happen",
            Self::Undone => "it was undone",
            Self::Unknown => "nobody can say whether it happened",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_documents() {
        let causes = [
            Interruption::HostStopped,
            Interruption::StepStopped,
            Interruption::StepUnsure,
            Interruption::Canceled,
            Interruption::LaterFailure,
            Interruption::Inquiry,
        ];
        for cause in causes {
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.name());
        }
        let findings = [Finding::NotStarted, Finding::Finished, Finding::NotDone, Finding::Undone, Finding::Unknown];
        for finding in findings {
            assert_eq!(serde_json::to_value(finding).unwrap(), finding.name());
        }
    }
}
