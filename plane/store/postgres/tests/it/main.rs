//! What the PostgreSQL store keeps, beyond the laws of every store, on servers that the tests start.
//!
//! One program for all of them: each that is linked takes the whole sandbox or the whole store with it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;
mod encrypted;
mod faults;
mod laws;
mod several;
