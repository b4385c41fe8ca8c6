//! What the SQLite store keeps, beyond the laws of every store.
//!
//! One program for all of them: each that is linked takes the whole sandbox or the whole store with it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod chain;
mod copies;
mod facts;
mod laws;
mod versions;
