//! What interrupted work left below the roots of a task that did not succeed.

use super::preflight::Prepared;

/// Removes unfinished files below everything that the task was allowed to write, except what another task
/// works on right now.
pub(super) async fn unfinished_files(prepared: &Prepared) {
    let mut capabilities: Vec<_> = prepared.steps.values().map(|step| step.capabilities.clone()).collect();
    capabilities.retain(crate::capabilities::Configured::may_write);
    if capabilities.is_empty() {
        return;
    }
    let sweep = move || capabilities.iter().for_each(crate::capabilities::Configured::sweep);
    let _ = tokio::task::spawn_blocking(sweep).await;
}
