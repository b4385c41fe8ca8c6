//! What a step component says of itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{grant::Capability, name::StepKind};

/// The JSON that a component's `describe` returns, and that its artifact's configuration repeats so
/// that a plane can check definitions without running anything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Descriptor {
    /// The kind this component implements.
    pub kind: StepKind,
    /// One sentence.
    pub summary: String,
    /// Whether it may be repeated.
    pub effect: Effect,
    /// JSON Schema (2020-12) of the input.
    pub input_schema: Value,
    /// JSON Schema of the output.
    pub output_schema: Value,
    /// The capabilities it uses, and why it needs each.
    #[serde(default)]
    pub requests: BTreeMap<Capability, String>,
    /// Whether it exports a probe of its own.
    pub probes: bool,
    /// Whether it can undo.
    #[serde(default)]
    pub undoes: bool,
}

/// What running a step does to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Reads only.
    Observe,
    /// Makes its own probe satisfied; safe to repeat.
    Converge,
    /// May not be repeated: a one-time token, a fixed command.
    Consume,
}
