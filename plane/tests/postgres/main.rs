//! The plane through its sockets, on PostgreSQL: the tests that run on SQLite too, and several planes over one
//! database.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking"
)]
#![allow(dead_code, reason = "some verbs of the harness belong to tests that need no database")]

#[path = "../it/access.rs"]
mod access;
#[path = "../it/conformance/mod.rs"]
mod conformance;
mod couriers;
#[path = "../it/definitions.rs"]
mod definitions;
#[path = "../it/disorder.rs"]
mod disorder;
#[path = "../it/events.rs"]
mod events;
mod failover;
#[path = "../it/leases.rs"]
mod leases;
#[path = "../it/nodes.rs"]
mod nodes;
#[path = "../it/policies.rs"]
mod policies;
mod program;
#[path = "../it/recovery.rs"]
mod recovery;
mod several;
#[path = "../it/submission.rs"]
mod submission;
#[path = "../it/support/mod.rs"]
mod support;
#[path = "../it/targets.rs"]
mod targets;
#[path = "../it/tenancy.rs"]
mod tenancy;
#[path = "../it/webhooks.rs"]
mod webhooks;
