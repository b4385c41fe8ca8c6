//! An operation while it is executed: states and what moves between them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// Where an operation is (seed 001, 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationStatus {
    /// Accepted, not started.
    Queued,
    /// At least one task has been taken by its node.
    Running,
    /// Every task succeeded.
    Succeeded,
    /// A task failed for good.
    Failed,
    /// Canceled by a person.
    Canceled,
}

/// Where a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Waits for what it needs.
    Pending,
    /// An attempt runs.
    Running,
    /// Done.
    Succeeded,
    /// Failed for good.
    Failed,
    /// Never started, because something before it failed.
    Skipped,
    /// Stopped because the operation was canceled.
    Canceled,
}

/// How one step ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum StepOutcome {
    /// It did what it should.
    Succeeded {
        /// JSON that fits the component's output schema.
        output: serde_json::Value,
        /// False when the probe found the work already done.
        changed: bool,
    },
    /// It failed for good.
    Failed {
        /// Why.
        failure: Failure,
    },
    /// It never started.
    Skipped {
        /// The step that failed before it.
        because_of: String,
    },
    /// The operation was canceled.
    Canceled,
}

impl OperationStatus {
    /// Whether nothing can change any more.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Canceled)
    }

    /// The name in documents and databases.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
        }
    }
}

impl StepStatus {
    /// Whether nothing can change any more.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Skipped | Self::Canceled)
    }

    /// The name in documents and databases.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Canceled => "canceled",
        }
    }
}

impl StepOutcome {
    /// The state a step is in after this.
    #[must_use]
    pub const fn status(&self) -> StepStatus {
        match self {
            Self::Succeeded { .. } => StepStatus::Succeeded,
            Self::Failed { .. } => StepStatus::Failed,
            Self::Skipped { .. } => StepStatus::Skipped,
            Self::Canceled => StepStatus::Canceled,
        }
    }
}

impl fmt::Display for OperationStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for StepStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
