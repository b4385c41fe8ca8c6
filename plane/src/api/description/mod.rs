//! The description of the API, completed: what is true of every endpoint is said once, here, and described of each.

mod examples;
mod parameters;
mod problems;
mod rules;

use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

use super::codes::Endpoint;
use crate::identity::table::{self, Need};

/// Methods that a path of the description can have.
pub(super) const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

/// The whole description.
pub(super) fn complete(document: &OpenApi) -> Value {
    let mut document = serde_json::to_value(document).unwrap_or_default();
    rules::complete(&mut document["components"]["schemas"]);
    let schemas = document["components"]["schemas"].clone();
    if let Some(paths) = document["paths"].as_object_mut() {
        for (path, item) in paths {
            for method in METHODS {
                let Some(operation) = item.get_mut(method).and_then(Value::as_object_mut) else { continue };
                describe(method, path, operation, &schemas);
            }
        }
    }
    if let Some(components) = document["components"].as_object_mut() {
        components.insert("headers".to_owned(), headers());
    }
    document
}

/// One endpoint.
fn describe(method: &str, path: &str, operation: &mut Map<String, Value>, schemas: &Value) {
    let Some(row) = table::find(&method.to_uppercase(), path) else { return };
    let has_query = parameters::complete(path, operation);
    let endpoint = Endpoint { row, has_body: operation.contains_key("requestBody"), has_query };
    operation.insert("operationId".to_owned(), row.action.replace('.', "_").into());
    operation.insert("x-roles".to_owned(), row.need.roles().into());
    if row.need == Need::Nothing {
        operation.insert("security".to_owned(), json!([]));
    }
    if let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) {
        problems::complete(endpoint, responses);
        for response in responses.values_mut() {
            accompany(response);
        }
    }
    examples::complete(operation, schemas);
}

/// The headers of every answer.
fn accompany(response: &mut Value) {
    let Some(response) = response.as_object_mut() else { return };
    let headers = response.entry("headers").or_insert_with(|| json!({}));
    for name in ["X-Correlation-Id", "traceparent"] {
        headers[name] = json!({ "$ref": format!("#/components/headers/{name}") });
    }
}

fn headers() -> Value {
    json!({
        "X-Correlation-Id": {
            "description": "follows the request through logs, events and the audit trail; that of the request when it has one",
            "schema": { "type": "string" },
            "example": "01KA3M9T6V2S8E1F4Q7K5B3CDX",
        },
        "traceparent": {
            "description": "where the request is in a trace (W3C Trace Context)",
            "schema": { "type": "string", "pattern": "^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$" },
            "example": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        },
    })
}

#[cfg(test)]
mod tests;
