//! The node: takes leases from a plane, verifies what it is asked to do, runs signed steps in a
//! sandbox, and reports.
//!
//! Data flows one way: [`agent`] (the loop with the plane) -> [`executor`] (the graph and the journal)
//! -> [`sandbox`] (wasmtime) -> [`capabilities`] (the node).

pub mod agent;
pub mod blocking;
pub mod capabilities;
pub mod check;
pub mod clock;
pub mod command;
pub mod executor;
mod memory;
pub mod metrics;
#[cfg(not(feature = "mutations"))]
mod mutation;
#[cfg(feature = "mutations")]
pub mod mutation;
pub mod queue;
pub mod refusals;
pub mod replay;
pub mod sandbox;
#[cfg(feature = "simulation")]
pub mod simulation;
