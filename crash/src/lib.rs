//! Points at which a test can kill the process, as a power cut would.
//!
//! A program calls [`point`] just before and just after each durable write. Without the feature
//! `crash-points` that is nothing at all. With it, two variables of the environment steer it:
//!
//! - `FETTLE_CRASH_TRACE=<file>`: every hit appends a line `<point>:<n>`, so that a test can enumerate
//!   the points of a scenario;
//! - `FETTLE_CRASH_AT=<point>:<n>`: at the `n`-th hit of that point (1 is the first) the process sends
//!   SIGKILL to itself. Nothing is flushed, no destructor runs.

#[cfg(feature = "crash-points")]
mod armed;

/// A place where a test may kill the process.
#[cfg(not(feature = "crash-points"))]
#[inline]
pub const fn point(_name: &'static str) {}

#[cfg(feature = "crash-points")]
pub use armed::point;
