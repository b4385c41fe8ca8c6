//! Guest SDK of Fettle.
//!
//! A step is an input type, an output type, one plain function and one macro line:
//!
//! ```
//! use fettle_step::{Failure, Observation, files};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! /// What to write.
//! #[derive(Deserialize, JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! struct Input {
//!     /// Where: `root/relative/path`.
//!     path: String,
//!     text: String,
//! }
//!
//! #[derive(Serialize, JsonSchema)]
//! struct Output {
//!     size: usize,
//! }
//!
//! fn run(input: &Input) -> Result<Output, Failure> {
//!     files::write(&input.path, input.text.as_bytes(), files::mode(0o644))?;
//!     Ok(Output { size: input.text.len() })
//! }
//!
//! fn probe(input: &Input) -> Result<Observation<Output>, Failure> {
//!     let there = files::read_if_present(&input.path, 65_536)?;
//!     if there.as_deref() == Some(input.text.as_bytes()) {
//!         return Ok(Observation::Satisfied(Output { size: input.text.len() }));
//!     }
//!     Ok(Observation::Unsatisfied(format!("would write {}", input.path)))
//! }
//!
//! fettle_step::step! {
//!     kind: "text.write@v1",
//!     summary: "Writes a text to a file.",
//!     effect: Converge,
//!     requests: { files: "reads and writes the file" },
//!     run: run,
//!     probe: probe,
//! }
//! # fn main() {}
//! ```
//!
//! Built for `wasm32-wasip2` the crate is a component of the world `fettle:step/component`. Built for
//! the machine at hand, the same functions talk to a [`fake::Node`], so that `cargo test` needs
//! neither a sandbox nor a node.
//!
//! A step has no clock, no randomness, no network and no file system but what the capability modules
//! here give it, so the same input and the same answers always give the same output.

#[doc(hidden)]
pub mod bindings;
mod call;
mod context;
mod definition;
mod descriptor;
mod export;
mod failure;
mod input;
mod observation;
mod text;

pub mod check;
pub mod credentials;
pub mod exec;
pub mod facts;
pub mod files;
pub mod gpu;
pub mod http;
pub mod policy;
pub mod report;
pub mod transfer;

#[cfg(not(target_arch = "wasm32"))]
pub mod fake;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod guest;

pub use call::CallError;
pub use context::{Context, current as context};
pub use definition::{Definition, Step};
pub use descriptor::{About, Capability, Effect};
pub use failure::{Failure, FailureClass};
pub use observation::Observation;
