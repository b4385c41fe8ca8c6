//! Providers against services that answer over real sockets, and documents that are wrong.

#![allow(clippy::unwrap_used, reason = "tests")]

mod documents;
mod presigned;
mod registry;
mod services;
mod support;
