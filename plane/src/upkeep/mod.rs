//! What keeps the database small: segments of logs are closed, and what is old enough is removed, a little at a time.

mod sweep;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use fettle_store::{context::Actor, webhook::Claim};

use self::sweep::Sweep;
use crate::state::State;

/// What it is called among the chores that one plane does for all.
const CHORE: &str = "upkeep";

/// How long things are kept after their end. None is for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Logs of operations that succeeded or were canceled.
    pub logs: Option<Duration>,
    /// Events of operations that succeeded or were canceled.
    pub events: Option<Duration>,
    /// Operations that succeeded or were canceled, with all that is left of them.
    pub operations: Option<Duration>,
    /// Operations that failed, with their logs and events.
    pub failed: Option<Duration>,
    /// Dead letters of webhooks.
    pub dead_letters: Option<Duration>,
    /// How often it is looked.
    pub interval: Duration,
}

/// Why times do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RetentionError {
    /// What failed would be gone before what did not.
    #[error(
        "failed operations would be kept for less long than others; make `--retain-failed` as long as the longest of \
         `--retain-logs`, `--retain-events` and `--retain-operations`"
    )]
    FailedTooShort,
}

const DAY: Duration = Duration::from_secs(24 * 3600);

impl Default for Retention {
    fn default() -> Self {
        Self {
            logs: Some(14 * DAY),
            events: Some(14 * DAY),
            operations: Some(30 * DAY),
            failed: Some(90 * DAY),
            dead_letters: Some(30 * DAY),
            interval: Duration::from_secs(60),
        }
    }
}

impl Retention {
    /// Whether failures are kept longest.
    ///
    /// # Errors
    /// When they are not.
    pub fn check(&self) -> Result<(), RetentionError> {
        let others = [self.logs, self.events, self.operations].map(|kept| kept.unwrap_or(Duration::MAX));
        match self.failed {
            Some(failed) if others.iter().any(|other| *other > failed) => Err(RetentionError::FailedTooShort),
            Some(_) | None => Ok(()),
        }
    }
}

/// Tidies up until shutdown, while no other plane does.
pub(crate) async fn tidy(state: State) {
    let owner = state.ulid().map_or_else(|_| "nobody".to_owned(), |ulid| ulid.to_string());
    let mut sweep = Sweep::new(Arc::clone(&state.store), Arc::clone(&state.metrics), state.config.retention);
    loop {
        let interval = state.config.retention.interval;
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
        // Longer than a round takes; a plane that is gone is replaced after that.
        let claim = Claim { owner: owner.clone(), until: state.after(interval.saturating_mul(3)) };
        let context = state.context(Actor::Plane, CHORE);
        let swept = match state.store.claim_chore(CHORE, claim, context).await {
            Ok(false) => continue,
            Ok(true) => tokio::select! {
                () = state.shutdown.cancelled() => return,
                swept = sweep.round(state.clock.now()) => swept,
            },
            Err(error) => Err(error),
        };
        if let Err(error) = swept {
            tracing::error!(error = &error as &dyn std::error::Error, "old records cannot be removed");
        }
    }
}
