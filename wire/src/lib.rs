//! The node protocol: generated messages, conversions to and from `fettle-model`, and how credentials are asked for.

pub mod channel;
pub mod convert;
pub mod credential;

/// Generated from `proto/node.proto`; the comments there are the documentation.
#[expect(missing_docs, clippy::all, clippy::pedantic, reason = "generated code")]
pub mod node {
    tonic::include_proto!("fettle.node.v1");
}
