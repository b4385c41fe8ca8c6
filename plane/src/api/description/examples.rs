//! Examples: one for each body, by the schema that it has.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

/// By the name of the schema, by the media type where that has none, and by the name of the header.
static EXAMPLES: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("examples.json")).unwrap_or_default());

/// Adds an example to the bodies that an operation takes and answers.
pub(super) fn complete(operation: &mut Map<String, Value>, schemas: &Value) {
    let empty = &mut json!({});
    let request = operation.get_mut("requestBody").and_then(|body| body.get_mut("content"));
    let request = request.and_then(Value::as_object_mut);
    for (kind, media) in request.into_iter().flatten() {
        add(kind, media, schemas);
    }
    let responses = operation.get_mut("responses").unwrap_or(empty).as_object_mut();
    for response in responses.into_iter().flat_map(Map::values_mut) {
        let content = response.get_mut("content").and_then(Value::as_object_mut);
        for (kind, media) in content.into_iter().flatten() {
            add(kind, media, schemas);
        }
        let headers = response.get_mut("headers").and_then(Value::as_object_mut);
        for (name, header) in headers.into_iter().flatten() {
            if let (None, Some(example)) = (header.get("$ref"), EXAMPLES["headers"].get(name)) {
                header["example"] = example.clone();
            }
        }
    }
}

fn add(kind: &str, media: &mut Value, schemas: &Value) {
    if media.get("example").is_some() || media.get("examples").is_some() {
        return;
    }
    if let Some(example) = name(&media["schema"], schemas).and_then(|name| EXAMPLES.get(name)).or(EXAMPLES.get(kind)) {
        media["example"] = example.clone();
    }
}

/// The schema that a body has, also where it may be left out.
fn name<'a>(schema: &'a Value, schemas: &Value) -> Option<&'a str> {
    let referred = |schema: &'a Value| schema.get("$ref").and_then(Value::as_str);
    let one_of = schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    let reference = referred(schema).or_else(|| one_of.filter_map(referred).next())?;
    let name = reference.rsplit('/').next()?;
    schemas.get(name).is_some().then_some(name)
}
