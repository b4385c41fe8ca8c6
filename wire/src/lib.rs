//! The node protocol: generated messages, and conversions to and from `fettle-model`.

pub mod channel;
pub mod convert;

/// Generated from `proto/node.proto`; the comments there are the documentation.
#[expect(missing_docs, clippy::all, clippy::pedantic, reason = "generated code")]
pub mod node {
    tonic::include_proto!("fettle.node.v1");
}
