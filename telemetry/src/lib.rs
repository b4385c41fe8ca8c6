//! What a program says of itself while it runs: lines of a log, metrics, spans.
//!
//! Lines go to standard error as JSON ([`log`]). Metrics wait to be fetched ([`metric`], [`listen`]). Spans go to a
//! collector when one is named ([`setup`]), and a [`TraceParent`] travels with the work, so that lines and spans of
//! one operation carry one trace id on every machine ([`span`]).

pub mod listen;
pub mod log;
pub mod metric;
mod parent;
pub mod setup;
pub mod span;

pub use parent::{NotATraceParent, TraceParent};
pub use setup::{Options, Telemetry};
pub use span::SPANS;
