//! Authorities and handshakes.
//!
//! One program for all of them: each that is linked takes the whole sandbox or the whole store with it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod authorities;
mod handshakes;
mod signing;
