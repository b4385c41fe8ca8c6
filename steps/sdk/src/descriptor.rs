//! What a step says of itself.

use std::collections::BTreeMap;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::Serialize;
use serde_json::Value;

/// What running a step does to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Reads only.
    Observe,
    /// Makes its own probe satisfied; safe to repeat.
    Converge,
    /// May not be repeated: a one-time token, a fixed command.
    Consume,
}

/// What a step can ask for beside its log. Named in the macro by these names in lowercase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Capability {
    /// Run command profiles.
    Exec,
    /// Read and write below named roots.
    Files,
    /// Move bulk data between registries and files.
    Transfer,
    /// Read facts about the node.
    Facts,
    /// Read the state of the GPUs.
    Gpu,
    /// Send HTTP requests.
    Http,
    /// Have credentials minted.
    Credentials,
    /// Say which policy bundles count.
    Policy,
}

/// What a step is, without its functions.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The kind it implements: `file.render@v1`.
    pub kind: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Whether it may be repeated.
    pub effect: Effect,
    /// The capabilities it uses, and why it needs each.
    pub requests: &'static [(Capability, &'static str)],
}

#[derive(Serialize)]
struct Descriptor<'a> {
    kind: &'a str,
    summary: &'a str,
    effect: Effect,
    input_schema: Value,
    output_schema: Value,
    requests: BTreeMap<Capability, &'a str>,
    probes: bool,
    undoes: bool,
}

/// The descriptor as JSON, schemas made from the types.
pub(crate) fn describe<Input: JsonSchema, Output: JsonSchema>(about: &About, probes: bool, undoes: bool) -> String {
    // Without references, so that whoever compares two schemas needs no resolver.
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let descriptor = Descriptor {
        kind: about.kind,
        summary: about.summary,
        effect: about.effect,
        input_schema: settings.clone().for_deserialize().into_generator().into_root_schema_for::<Input>().into(),
        output_schema: settings.for_serialize().into_generator().into_root_schema_for::<Output>().into(),
        requests: about.requests.iter().copied().collect(),
        probes,
        undoes,
    };
    // Only a map whose keys are no texts could fail, and there is none.
    serde_json::to_string(&descriptor).unwrap_or_default()
}
