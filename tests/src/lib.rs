//! End-to-end tests: a real registry, a plane and a host as processes of their own, real sockets.
//!
//! [`Supply`] is a registry with everything published and signed; [`Fleet`] is a plane, or several, with one host.
//! Scenarios are in `scenarios/`, one file each.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a harness: what cannot be set up should stop the test"
)]
#![expect(clippy::future_not_send, reason = "scenarios run on the thread that starts them")]
#![expect(clippy::missing_panics_doc, reason = "every verb stops the test when it cannot do its work")]

pub mod balancer;
pub mod collector;
pub mod fleet;
pub mod memory;
pub mod planes;
pub mod process;
pub mod recordings;
pub mod supply;

pub use fleet::{Fleet, Programs};
pub use process::Process;
pub use supply::Supply;

use std::time::{Duration, Instant};

/// Waits until `check` answers something, at most `limit`.
pub async fn eventually<T>(what: &str, limit: Duration, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = check().await {
            return found;
        }
        assert!(begin.elapsed() < limit, "waited {} s in vain for {what}", limit.as_secs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
