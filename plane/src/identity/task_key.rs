//! The key that this plane signs tasks with. It is made when it is first needed, lives in memory only, and is replaced
//! long before its certificate is over, or when another authority signs.

use std::sync::{Arc, Mutex, PoisonError};

use fettle_identity::signing::Signer;
use jiff::{SignedDuration, Timestamp};

use super::authorities::{Current, IdentityError};
use crate::clock::Clock;

/// How long its certificate counts, in either direction: it opens no connection, each signature is good for one
/// occasion, and a node whose clock is wrong by hours should say so elsewhere than here.
const COUNTS: SignedDuration = SignedDuration::from_hours(24);

/// When it is replaced.
const REPLACED_AFTER: SignedDuration = SignedDuration::from_hours(16);

/// The key of now.
#[derive(Default)]
pub(crate) struct TaskKey(Mutex<Option<Held>>);

struct Held {
    signer: Arc<Signer>,
    /// Of the authorities that it was made under.
    mark: String,
    replace_at: Timestamp,
}

impl TaskKey {
    /// What signs tasks now.
    pub(crate) fn current(&self, authorities: &Current, clock: &dyn Clock) -> Result<Arc<Signer>, IdentityError> {
        let now = clock.now();
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = held.as_ref().filter(|held| held.mark == authorities.mark && now < held.replace_at) {
            return Ok(Arc::clone(&held.signer));
        }
        let signer = Arc::new(authorities.task_signer(clock, COUNTS)?);
        let replace_at = now.saturating_add(REPLACED_AFTER).unwrap_or(Timestamp::MAX);
        *held = Some(Held { signer: Arc::clone(&signer), mark: authorities.mark.clone(), replace_at });
        Ok(signer)
    }
}
