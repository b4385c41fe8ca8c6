//! What a host does, on real components, programs, registries and journals.
//!
//! One program for all of them: each that is linked takes the whole sandbox or the whole store with it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and starts programs"
)]

mod agent;
mod cases;
mod chance;
mod code_cache;
mod command;
mod common;
mod credentials;
mod denials;
mod exec;
mod files;
mod gpu;
mod health;
mod hostile;
mod http;
mod imports;
mod journal;
mod obedience;
mod ordinary_user;
mod policies;
mod pull;
mod python;
mod replay;
mod sandbox;
mod support;
