//! Problems: each status that an endpoint may answer, with the codes that come with it.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use crate::api::codes::{self, Code, Endpoint};

/// Adds the problems of an endpoint to its responses, where the endpoint has not described them itself, and says of
/// each which codes it has.
pub(super) fn complete(endpoint: Endpoint, responses: &mut Map<String, Value>) {
    let mut by_status: BTreeMap<u16, Vec<&Code>> = BTreeMap::new();
    for code in codes::of(endpoint) {
        by_status.entry(code.status.as_u16()).or_default().push(code);
    }
    for (status, codes) in by_status {
        let response = responses.entry(status.to_string()).or_insert_with(|| {
            let meanings: Vec<_> = codes.iter().map(|code| code.meaning).collect();
            json!({ "description": meanings.join("; or ") })
        });
        response["content"] = json!({ "application/problem+json": {
            "schema": schema(&codes),
            "examples": examples(&codes),
        }});
        if let Some(headers) = headers(status) {
            response["headers"] = headers;
        }
    }
}

/// A problem with one of these codes.
fn schema(codes: &[&Code]) -> Value {
    let names: Vec<_> = codes.iter().map(|code| code.name).collect();
    json!({ "allOf": [
        { "$ref": "#/components/schemas/ProblemDocument" },
        { "type": "object", "properties": { "code": { "enum": names } } },
    ]})
}

/// One for each code.
fn examples(codes: &[&Code]) -> Value {
    let example = |code: &&Code| (code.name.to_owned(), json!({ "value": problem(code) }));
    Value::Object(codes.iter().map(example).collect())
}

fn problem(code: &Code) -> Value {
    let mut problem = json!({
        "type": format!("urn:fettle:problem:{}", code.name),
        "title": code.status.canonical_reason().unwrap_or_default(),
        "status": code.status.as_u16(),
        "code": code.name,
        "detail": format!("{}; {}", code.meaning, code.remedy),
    });
    if ["request.invalid", "policy.denied"].contains(&code.name) {
        problem["violations"] =
            json!([{ "pointer": "/operation_type", "message": "says what is wrong there, and the fix" }]);
    }
    problem
}

fn headers(status: u16) -> Option<Value> {
    let header = |name: &str, description: &str, example: Value, schema: Value| json!({ name: { "description": description, "schema": schema, "example": example } });
    match StatusCode::from_u16(status).ok()? {
        StatusCode::UNAUTHORIZED => {
            Some(header("WWW-Authenticate", "how to authenticate", json!("Bearer"), json!({ "type": "string" })))
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            let whole = json!({ "type": "integer", "minimum": 0 });
            Some(header("Retry-After", "seconds to wait", json!(1), whole))
        }
        _ => None,
    }
}
