//! The program, as its users run it.
//!
//! One program for all of them: each that is linked takes the whole sandbox or the whole store with it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and starts programs"
)]

mod authors;
mod development;
mod documents;
mod login;
mod streams;
mod trust;
