//! The timers that end leases which nobody extended, and operations that are not over in time.

use std::{future::Future, ops::ControlFlow, time::Duration};

use fettle_store::{StoreError, context::Actor};
use jiff::Timestamp;

use crate::state::State;

/// The longest sleep: the clock of the machine may be set meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// How long to leave a failing store alone.
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// Ends leases, until shutdown.
pub(crate) async fn leases(state: State) {
    loop {
        let deadline = or_later(&state, end_leases(&state).await, "leases cannot be checked");
        // A lease given meanwhile is due no earlier than this, so it need not wake the timer before.
        let soon = state.config.acknowledge_timeout.min(state.config.lease_duration);
        if wait(&state, deadline, soon, state.wakeups.lease()).await.is_break() {
            return;
        }
    }
}

/// Ends operations whose deadline has passed, until shutdown.
pub(crate) async fn operations(state: State) {
    loop {
        let deadline = or_later(&state, end_operations(&state).await, "deadlines of operations cannot be checked");
        if wait(&state, deadline, Duration::ZERO, state.wakeups.deadline()).await.is_break() {
            return;
        }
    }
}

/// Ends the due leases and answers when the next one is due.
async fn end_leases(state: &State) -> Result<Option<Timestamp>, StoreError> {
    let deadline = state.store.next_lease_deadline().await?;
    if deadline.is_none_or(|deadline| deadline > state.clock.now()) {
        return Ok(deadline);
    }
    let ended = state.store.expire_leases(state.context(Actor::Plane, "lease-expiry")).await?;
    tracing::info!(ended, "leases expired");
    state.store.next_lease_deadline().await
}

/// Ends the due operations and answers when the next one is due.
async fn end_operations(state: &State) -> Result<Option<Timestamp>, StoreError> {
    let deadline = state.store.next_operation_deadline().await?;
    if deadline.is_none_or(|deadline| deadline > state.clock.now()) {
        return Ok(deadline);
    }
    let ended = state.store.expire_operations(state.context(Actor::Plane, "operation-deadline")).await?;
    tracing::info!(ended, "operations were not over in time");
    state.store.next_operation_deadline().await
}

fn or_later(state: &State, next: Result<Option<Timestamp>, StoreError>, what: &str) -> Option<Timestamp> {
    next.unwrap_or_else(|error| {
        tracing::error!(%error, "{what}");
        Some(state.after(AFTER_ERROR))
    })
}

/// Waits for the deadline, or for an earlier one. Sleeps up to `soon` are not cut short.
async fn wait(
    state: &State,
    deadline: Option<Timestamp>,
    soon: Duration,
    changed: impl Future<Output = ()>,
) -> ControlFlow<()> {
    let sleep = deadline.map_or(LONGEST_SLEEP, |deadline| {
        let left = deadline.duration_since(state.clock.now());
        Duration::try_from(left).unwrap_or_default().min(LONGEST_SLEEP)
    });
    tokio::select! {
        () = state.shutdown.cancelled() => return ControlFlow::Break(()),
        () = tokio::time::sleep(sleep) => {}
        () = changed, if sleep > soon || deadline.is_none() => {}
    }
    ControlFlow::Continue(())
}
