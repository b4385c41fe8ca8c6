//! Artifacts on real registries and stores, and the attacks on them.
//!
//! One program for all of them: each that is linked takes the whole sandbox or the whole store with it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::future_not_send,
    clippy::wildcard_enum_match_arm,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking, and starts programs"
)]

mod airgap;
mod attacks;
mod bundles;
mod download;
mod embedded;
mod identities;
mod main_path;
mod others;
mod outages;
mod store;
mod support;
mod verdicts;
