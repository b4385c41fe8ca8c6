//! Time as a parameter.

use std::sync::Arc;

/// Milliseconds since the Unix epoch.
pub type Milliseconds = i64;

/// Where the host gets the time from.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Milliseconds + Send + Sync>);

impl Clock {
    /// The system's clock.
    #[must_use]
    pub fn system() -> Self {
        Self(Arc::new(|| jiff::Timestamp::now().as_millisecond()))
    }

    /// A clock of a test.
    pub fn from_fn(now: impl Fn() -> Milliseconds + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> Milliseconds {
        (self.0)()
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}
