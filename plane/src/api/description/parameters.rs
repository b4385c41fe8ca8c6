//! Parameters: the rule of each name and an example, said once for all endpoints.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

/// By name, and where one name means several things, by `METHOD-less path#name`.
static PARAMETERS: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("parameters.json")).unwrap_or_default());

/// Adds rules and examples; answers whether there is a query.
pub(super) fn complete(path: &str, operation: &mut Map<String, Value>) -> bool {
    let mut has_query = false;
    let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
    for parameter in parameters.into_iter().flatten() {
        has_query |= parameter["in"] == "query";
        let name = parameter["name"].as_str().unwrap_or_default().to_owned();
        let known = &PARAMETERS[format!("{path}#{name}")];
        let known = if known.is_null() { &PARAMETERS[name] } else { known };
        if let Some(rules) = known["schema"].as_object() {
            parameter["schema"] = json!(rules);
        }
        if let Some(example) = known.get("example") {
            parameter["example"] = example.clone();
        }
    }
    has_query
}
