//! For tests of this and other crates: a real registry process, and a proxy that misbehaves.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that cannot set itself up should stop"
)]

pub mod attach;
mod faulty;
mod judge;
mod registry;

pub use faulty::{FaultyProxy, Misbehaviour};
pub use judge::judge;
pub use registry::TestRegistry;
