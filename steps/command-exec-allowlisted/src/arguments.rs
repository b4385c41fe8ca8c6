//! Arguments as people write them, and as the host takes them.

use std::collections::BTreeMap;

use fettle_step::exec::Argument;
use schemars::JsonSchema;
use serde::Deserialize;

/// Arguments by name.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Arguments(BTreeMap<String, Scalar>);

/// A text or a whole number. What the profile allows, the host checks.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "an argument is a text or a whole number")]
enum Scalar {
    Text(String),
    Integer(i64),
}

impl Arguments {
    /// Ordered by name.
    pub(crate) fn to_host(&self) -> Vec<Argument> {
        let text = |value: &Scalar| match value {
            Scalar::Text(text) => text.clone(),
            Scalar::Integer(number) => number.to_string(),
        };
        self.0.iter().map(|(name, value)| Argument { name: name.clone(), value: text(value) }).collect()
    }
}
