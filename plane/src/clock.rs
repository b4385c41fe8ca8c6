//! The one place that reads the clock and makes random bytes.

use std::time::UNIX_EPOCH;

use jiff::Timestamp;
use ulid::Ulid;

/// Time and randomness.
pub(crate) trait Clock: Send + Sync {
    /// Now, in whole milliseconds: what the store can hold.
    fn now(&self) -> Timestamp;

    /// Fills `bytes` with randomness that nobody can guess.
    ///
    /// # Errors
    /// When the operating system has none.
    fn random(&self, bytes: &mut [u8]) -> Result<(), NoRandomness>;
}

/// The operating system gives no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the operating system gives no random bytes: {0}")]
pub(crate) struct NoRandomness(getrandom::Error);

/// The real ones.
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        #[expect(clippy::disallowed_methods, reason = "this is the clock that others take as a parameter")]
        let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis())
            .ok()
            .and_then(|milliseconds| Timestamp::from_millisecond(milliseconds).ok())
            .unwrap_or(Timestamp::MAX)
    }

    fn random(&self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        getrandom::fill(bytes).map_err(NoRandomness)
    }
}

/// A new identifier.
pub(crate) fn ulid(clock: &dyn Clock) -> Result<Ulid, NoRandomness> {
    let mut bytes = [0; 16];
    clock.random(&mut bytes)?;
    let milliseconds = u64::try_from(clock.now().as_millisecond()).unwrap_or(0);
    Ok(Ulid::from_parts(milliseconds, u128::from_be_bytes(bytes)))
}
