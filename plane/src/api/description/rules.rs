//! Rules of bodies that the types do not say themselves.

use serde_json::Value;

/// Adds them to the schemas.
pub(super) fn complete(schemas: &mut Value) {
    let rules: Value = serde_json::from_str(include_str!("rules.json")).unwrap_or_default();
    merge(schemas, rules);
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
