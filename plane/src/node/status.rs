//! From errors and verdicts to what the protocol says.

use fettle_store::{StoreError, task};
use fettle_wire::node::Verdict;
use tonic::Status;

use crate::state::State;

/// The status of a store error. What the database itself said stays in the log.
pub(super) fn store(error: StoreError) -> Status {
    match &error {
        StoreError::Unavailable { source, .. } => {
            tracing::error!(%error, %source, "a call of a node failed");
            Status::unavailable(error.to_string())
        }
        StoreError::Corrupt { source, .. } => {
            tracing::error!(%error, %source, "a call of a node failed");
            Status::internal(error.to_string())
        }
        StoreError::NotFound { .. } => Status::not_found(error.to_string()),
        StoreError::Conflict { code, message } => Status::failed_precondition(format!("{message} [{code}]")),
    }
}

/// The verdict in the answer to a call. What was said under a lease that is over is counted.
pub(super) fn told(state: &State, call: &str, verdict: task::Verdict) -> i32 {
    if verdict == task::Verdict::Stale {
        state.metrics.stale_reports.with([call]).inc();
    }
    match verdict {
        task::Verdict::Accepted => Verdict::Accepted as i32,
        task::Verdict::Stale => Verdict::Stale as i32,
        task::Verdict::Ended => Verdict::Ended as i32,
    }
}

/// Whole seconds, at least one.
pub(super) fn seconds(duration: std::time::Duration) -> u32 {
    u32::try_from(duration.as_secs().max(1)).unwrap_or(u32::MAX)
}
