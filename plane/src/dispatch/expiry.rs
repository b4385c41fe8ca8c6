//! The timer that ends leases which nobody extended.

use std::time::Duration;

use fettle_store::context::Actor;
use jiff::Timestamp;

use crate::state::State;

/// The longest sleep: the clock of the machine may be set meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// How long to leave a failing store alone.
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// Runs until shutdown.
pub(crate) async fn run(state: State) {
    loop {
        let deadline = match end_due(&state).await {
            Ok(deadline) => deadline,
            Err(error) => {
                tracing::error!(%error, "leases cannot be checked");
                Some(state.after(AFTER_ERROR))
            }
        };
        if wait(&state, deadline).await.is_break() {
            return;
        }
    }
}

/// Ends the due leases and answers when the next one is due.
async fn end_due(state: &State) -> Result<Option<Timestamp>, fettle_store::StoreError> {
    let deadline = state.store.next_lease_deadline().await?;
    if deadline.is_none_or(|deadline| deadline > state.clock.now()) {
        return Ok(deadline);
    }
    let context = state.context(Actor::Plane, "lease-expiry");
    let ended = state.store.expire_leases(context).await?;
    tracing::info!(ended, "leases expired");
    state.store.next_lease_deadline().await
}

/// Waits for the deadline, or for an earlier one.
async fn wait(state: &State, deadline: Option<Timestamp>) -> std::ops::ControlFlow<()> {
    let sleep = deadline.map_or(LONGEST_SLEEP, |deadline| {
        let left = deadline.duration_since(state.clock.now());
        Duration::try_from(left).unwrap_or_default().min(LONGEST_SLEEP)
    });
    // A lease given meanwhile is due no earlier than this, so it need not wake the timer before.
    let soon = sleep <= state.config.acknowledge_timeout.min(state.config.lease_duration);
    tokio::select! {
        () = state.shutdown.cancelled() => return std::ops::ControlFlow::Break(()),
        () = tokio::time::sleep(sleep) => {}
        () = state.wakeups.lease(), if !soon || deadline.is_none() => {}
    }
    std::ops::ControlFlow::Continue(())
}
