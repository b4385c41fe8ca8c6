//! What a store witnesses: facts that are counted and logged when they are durable. Nobody waits for them.

use fettle_model::operation::{OperationStatus, StepStatus};

/// Which operation a fact is about: what every line of a log says of it (seed 001, 13).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its id.
    pub operation_id: String,
    /// Its type.
    pub operation_type: String,
    /// The organisation of its project.
    pub org_id: String,
    /// Its project.
    pub project_id: String,
    /// Follows it through every log.
    pub correlation_id: String,
    /// Its name as a resource.
    pub resource_name: String,
    /// Where it continues in a trace (W3C `traceparent`).
    pub trace_parent: Option<String>,
}

/// Something that happened to an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// It was accepted.
    OperationRequested {
        /// Which.
        about: About,
    },
    /// It is over.
    OperationEnded {
        /// Which.
        about: About,
        /// How.
        status: OperationStatus,
        /// The code of its failure.
        error_code: Option<String>,
    },
    /// A step of it has its result.
    StepEnded {
        /// Which operation.
        about: About,
        /// The step's name.
        step_id: String,
        /// What it does.
        step_kind: String,
        /// The last attempt.
        attempt_number: u32,
        /// How it ended.
        status: StepStatus,
        /// The code of its failure.
        error_code: Option<String>,
        /// Milliseconds of the last attempt.
        duration_ms: u64,
    },
    /// A node was given its task.
    TaskLeased {
        /// Which operation.
        about: About,
        /// The task.
        task_id: String,
        /// Under which epoch.
        epoch: u64,
    },
    /// The lease on its task ended before the task did.
    LeaseEnded {
        /// Which operation.
        about: About,
        /// The task.
        task_id: String,
        /// As the audit trail names it: `task.lease_expire` or `task.lease_lost`.
        action: &'static str,
    },
}
