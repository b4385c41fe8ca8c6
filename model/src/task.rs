//! A plan bound to one node, and a host's right to execute it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    denial::Denial, digest::Digest, failure::Failure, name::StepId, operation::StepOutcome, plan::Sources,
    settlement::Settlement,
};

/// Fences a lease: it only grows, and a report under an older one is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Epoch(pub u64);

/// What a plane asks a host to execute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The task.
    pub task_id: String,
    /// The operation it belongs to.
    pub operation_id: String,
    /// The project that owns the operation.
    pub project_id: String,
    /// The node it is for.
    pub node_id: String,
    /// Follows the operation through every log.
    pub correlation_id: String,
    /// The signed artifacts.
    pub sources: Sources,
    /// The operation's inputs.
    pub inputs: Value,
    /// What the host's own plan must hash to.
    pub plan_digest: Digest,
    /// Outputs of steps that the plane has already accepted; they are not run again.
    #[serde(default)]
    pub accepted: BTreeMap<StepId, Value>,
    /// Steps that are only to be probed, because nobody knows whether they happened; nothing else of the task is
    /// done then. None for a task that is to be executed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub inquire: BTreeSet<StepId>,
    /// The organisation of the project, for logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub org_id: Option<String>,
    /// Where the task continues in a trace (W3C `traceparent`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_parent: Option<String>,
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum TaskOutcome {
    /// Every step succeeded.
    Succeeded,
    /// It failed for good.
    Failed {
        /// The first failure.
        failure: Failure,
        /// The step that failed; none when none was started.
        step_id: Option<StepId>,
    },
    /// It was canceled.
    Canceled,
}

/// What a host tells of a task while it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum StepEvent {
    /// An attempt starts.
    Started {
        /// The step.
        step_id: StepId,
        /// 1 for the first.
        attempt: u32,
        /// Milliseconds since the Unix epoch, by the host's clock.
        at: i64,
    },
    /// How far it is.
    Progress {
        /// The step.
        step_id: StepId,
        /// 0 to 100.
        percent: u8,
        /// What it is doing.
        message: Option<String>,
    },
    /// Lines of its log.
    Log {
        /// The step.
        step_id: StepId,
        /// 1 for the first.
        attempt: u32,
        /// In order.
        lines: Vec<LogLine>,
    },
    /// Capability calls that were refused. Each is stored once, by attempt, number and time.
    Denied {
        /// The step.
        step_id: StepId,
        /// 1 for the first.
        attempt: u32,
        /// The component that called.
        component: Digest,
        /// In order.
        denials: Vec<Denial>,
    },
    /// An attempt failed and another will be made.
    Retrying {
        /// The step.
        step_id: StepId,
        /// The attempt that failed.
        attempt: u32,
        /// Why.
        failure: Failure,
        /// Milliseconds until the next.
        wait_ms: u64,
    },
    /// It was found out what became of an attempt whose end nobody saw, or what it did was taken back. May come
    /// after the step is over.
    Settled {
        /// The step.
        step_id: StepId,
        /// The attempt that found it out.
        attempt: u32,
        /// What.
        settlement: Settlement,
    },
    /// The step is over.
    Finished {
        /// The step.
        step_id: StepId,
        /// The last attempt; 0 when none was started.
        attempt: u32,
        /// How.
        result: StepOutcome,
        /// Milliseconds of the last attempt.
        duration_ms: u64,
        /// Milliseconds since the Unix epoch, by the host's clock.
        at: i64,
    },
}

/// One line of a step's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Milliseconds since the Unix epoch, by the host's clock.
    pub at: i64,
    /// How grave.
    pub level: LogLevel,
    /// The text, without a line break.
    pub text: String,
}

/// How grave a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// For the author of the step.
    Debug,
    /// For who follows the operation.
    Info,
    /// Something is odd.
    Warn,
    /// Something failed.
    Error,
}

impl StepEvent {
    /// The step it is about.
    #[must_use]
    pub const fn step_id(&self) -> &StepId {
        match self {
            Self::Started { step_id, .. }
            | Self::Progress { step_id, .. }
            | Self::Log { step_id, .. }
            | Self::Denied { step_id, .. }
            | Self::Retrying { step_id, .. }
            | Self::Settled { step_id, .. }
            | Self::Finished { step_id, .. } => step_id,
        }
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
