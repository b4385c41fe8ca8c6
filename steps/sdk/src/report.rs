//! Log lines and progress of the attempt. Every step may use them.

#[cfg(target_arch = "wasm32")]
use crate::bindings::fettle::report::report as backend;
pub use crate::bindings::fettle::report::report::Level;
#[cfg(not(target_arch = "wasm32"))]
use crate::fake::report as backend;

/// Adds one line to the step's log, cut at 8 KiB. Never fails.
pub fn log(level: Level, message: &str) {
    backend::log(level, message);
}

/// Adds an `info` line.
pub fn info(message: &str) {
    log(Level::Info, message);
}

/// Adds a `warn` line.
pub fn warn(message: &str) {
    log(Level::Warn, message);
}

/// Says how far the step is, 0 to 100.
pub fn progress(percent: u8, message: Option<&str>) {
    backend::progress(percent, message);
}
