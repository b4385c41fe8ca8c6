//! The plane through its sockets: REST as a user, the node protocol as a fake host.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking"
)]

mod access;
mod conformance;
mod credentials;
mod definitions;
mod description;
mod disorder;
mod events;
mod leases;
mod lockouts;
mod nodes;
mod openid;
mod policies;
mod program;
mod receiving;
mod recovery;
mod start;
mod submission;
mod support;
mod targets;
mod telemetry;
mod tenancy;
mod webhooks;
