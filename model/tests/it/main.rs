//! The rules of the model, in tables.
//!
//! One program for all of them: each that is linked takes the whole sandbox or the whole store with it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod access;
mod cassette;
mod check;
mod overlay;
