//! The description says everything with an example, and every example is as its schema wants it.

use std::{collections::BTreeSet, fmt::Write as _};

use serde_json::{Value, json};

use super::{METHODS, complete};
use crate::{
    api::codes::{self, Endpoint},
    identity::table,
};

fn document() -> Value {
    complete(&crate::api::rest().1)
}

/// Path, method and description of each endpoint.
fn operations(document: &Value) -> Vec<(&str, &'static str, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let of = |(path, item): (&'_ String, &'_ Value)| -> Vec<(&'static str, String)> {
        METHODS.into_iter().filter(|method| item.get(method).is_some()).map(|method| (method, path.clone())).collect()
    };
    let all: Vec<_> = paths.iter().flat_map(of).collect();
    let find = |(method, path): (&'static str, String)| {
        let (path, item) = paths.get_key_value(&path).unwrap();
        (path.as_str(), method, &item[method])
    };
    all.into_iter().map(find).collect()
}

/// What is wrong with an example.
fn wrong(document: &Value, schema: &Value, example: &Value) -> Vec<String> {
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&schema).unwrap();
    validator.iter_errors(example).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// The examples of a parameter, a header or a body.
fn examples(of: &Value) -> Vec<&Value> {
    let many = of["examples"].as_object().into_iter().flat_map(|named| named.values()).map(|one| &one["value"]);
    of.get("example").into_iter().chain(many).collect()
}

/// Everything that needs an example, with its name and its schema.
fn described<'a>(document: &'a Value, found: &mut Vec<(String, &'a Value)>) {
    for (path, method, operation) in operations(document) {
        let name = format!("{method} {path}");
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            found.push((format!("{name} {}", parameter["name"]), parameter));
        }
        for (kind, media) in operation["requestBody"]["content"].as_object().into_iter().flatten() {
            found.push((format!("{name} request {kind}"), media));
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            for (kind, media) in response["content"].as_object().into_iter().flatten() {
                found.push((format!("{name} {status} {kind}"), media));
            }
            for (header, value) in response["headers"].as_object().into_iter().flatten() {
                let reference = value["$ref"].as_str().map(|target| target.trim_start_matches('#'));
                let value = reference.map_or(value, |target| document.pointer(target).unwrap());
                found.push((format!("{name} {status} {header}"), value));
            }
        }
    }
}

#[test]
fn everything_has_an_example_and_every_example_is_as_its_schema_wants_it() {
    let document = document();
    let mut found = Vec::new();
    described(&document, &mut found);
    assert!(found.len() > 300, "only {} places were found; correct the test", found.len());
    let mut complaints = Vec::new();
    for (name, of) in found {
        let examples = examples(of);
        if examples.is_empty() {
            complaints.push(format!("{name}: no example"));
        }
        for example in examples {
            complaints
                .extend(wrong(&document, &of["schema"], example).into_iter().map(|text| format!("{name}: {text}")));
        }
    }
    assert!(complaints.is_empty(), "see plane/src/api/description: {complaints:#?}");
}

#[test]
fn an_example_that_breaks_its_schema_is_found() {
    let document = document();
    let schema = json!({ "$ref": "#/components/schemas/NewOperationRequest" });
    let good = json!({ "operation_type": "a.b", "version": "v1", "target_selector": { "node": "x" } });
    assert_eq!(wrong(&document, &schema, &good), Vec::<String>::new());
    for (pointer, value) in [("/version", json!("1")), ("/target_selector", json!({})), ("/priority", json!(10))] {
        let mut bad = good.clone();
        bad["priority"] = json!(1);
        *bad.pointer_mut(pointer).unwrap() = value;
        assert!(!wrong(&document, &schema, &bad).is_empty(), "{pointer}");
    }
}

#[test]
fn every_endpoint_has_a_name_of_its_own_and_says_what_it_does() {
    let document = document();
    let operations = operations(&document);
    let names: BTreeSet<_> =
        operations.iter().map(|(.., operation)| operation["operationId"].as_str().unwrap()).collect();
    assert_eq!(names.len(), operations.len());
    for (path, method, operation) in operations {
        assert!(operation["summary"].as_str().is_some_and(|text| text.len() > 10), "{method} {path}");
        assert!(operation["tags"].as_array().is_some_and(|tags| tags.len() == 1), "{method} {path}");
    }
}

#[test]
fn every_refusal_that_is_described_has_a_code() {
    let document = document();
    let mut without = Vec::new();
    for (path, method, operation) in operations(&document) {
        let row = table::find(&method.to_uppercase(), path).unwrap();
        let has_query = operation["parameters"].as_array().into_iter().flatten().any(|one| one["in"] == "query");
        let endpoint = Endpoint { row, has_body: operation.get("requestBody").is_some(), has_query };
        for status in operation["responses"].as_object().unwrap().keys().filter(|status| status.as_str() >= "400") {
            if !codes::of(endpoint).any(|code| code.status.as_str() == status) {
                without.push(format!("{method} {path} {status}"));
            }
        }
    }
    assert!(without.is_empty(), "no code of plane/src/api/codes.rs is for: {without:#?}");
}

/// A cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn text_of<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn kind(schema: &Value) -> String {
    let referred = |schema: &Value| schema["$ref"].as_str().map(|text| text.rsplit('/').next().unwrap().to_owned());
    if let Some(name) = referred(schema) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(values) = schema["enum"].as_array() {
        return values
            .iter()
            .map(|value| format!("`{}`", value.as_str().unwrap_or_default()))
            .collect::<Vec<_>>()
            .join(", ");
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => format!("list of {}", kind(&schema["items"])),
        Value::String(name) => name.clone(),
        Value::Array(names) => {
            let names = names.iter().filter_map(Value::as_str).filter(|name| *name != "null");
            let names: Vec<_> = names.collect();
            if names == ["array"] { format!("list of {}", kind(&schema["items"])) } else { names.join(" or ") }
        }
        _ => {
            let one_of = schema["oneOf"].as_array().into_iter().flatten();
            one_of
                .filter_map(referred)
                .next()
                .map_or_else(|| "any".to_owned(), |name| format!("[{name}](#{})", name.to_lowercase()))
        }
    }
}

fn endpoint(text: &mut String, path: &str, method: &str, operation: &Value) {
    let _ = writeln!(text, "### `{} {path}`\n", method.to_uppercase());
    let said = [text_of(operation, "summary"), text_of(operation, "description")];
    let said = said.into_iter().filter(|part| !part.is_empty()).map(cell).collect::<Vec<_>>().join(" ");
    let _ = writeln!(text, "{said}\n\nWho: {}.\n", text_of(operation, "x-roles"));
    let parameters = operation["parameters"].as_array();
    if let Some(parameters) = parameters.filter(|all| !all.is_empty()) {
        text.push_str("| parameter | in | what | example |\n|---|---|---|---|\n");
        for one in parameters {
            let description = cell(text_of(one, "description"));
            let is_list = one["schema"].get("enum").is_some();
            let what = if is_list { description } else { format!("{}; {description}", kind(&one["schema"])) };
            let example = &one["example"];
            let example = example.as_str().map_or_else(|| example.to_string(), str::to_owned);
            let _ = writeln!(text, "| `{}` | {} | {what} | `{example}` |", text_of(one, "name"), text_of(one, "in"));
        }
        text.push('\n');
    }
    if let Some(media) = operation["requestBody"]["content"].get("application/json") {
        let example = serde_json::to_string_pretty(&media["example"]).unwrap();
        let _ = writeln!(text, "Body: {}.\n\n```json\n{example}\n```\n", kind(&media["schema"]));
    }
    text.push_str("| status | what | body |\n|---|---|---|\n");
    let is_own = |status: &&String| !COMMON.contains(&status.as_str());
    for (status, response) in operation["responses"].as_object().unwrap().iter().filter(|(status, _)| is_own(status)) {
        let _ = writeln!(text, "| {status} | {} | {} |", cell(text_of(response, "description")), body(response));
    }
    text.push('\n');
}

/// Statuses that the page says once.
const COMMON: [&str; 8] = ["400", "401", "413", "415", "429", "500", "503", "504"];

/// The problems of every endpoint.
fn common(text: &mut String) {
    text.push_str("| status | code | which endpoints | what |\n|---|---|---|---|\n");
    for code in codes::CODES.iter().filter(|code| COMMON.contains(&code.status.as_str())) {
        let which = match code.status.as_u16() {
            400 | 413 | 415 => "those with a body",
            401 | 429 => "those that need a token",
            _ => "all",
        };
        let _ = writeln!(text, "| {} | `{}` | {which} | {} |", code.status.as_u16(), code.name, code.meaning);
    }
    text.push('\n');
}

/// What a response holds: the name of its schema, or the codes of the problem.
fn body(response: &Value) -> String {
    let Some((media, content)) = response["content"].as_object().and_then(|all| all.iter().next()) else {
        return String::new();
    };
    match content["examples"].as_object() {
        Some(examples) => examples.keys().map(|code| format!("`{code}`")).collect::<Vec<_>>().join(", "),
        None if media == "application/json" => kind(&content["schema"]),
        None => media.clone(),
    }
}

fn schema(text: &mut String, name: &str, schema: &Value) {
    let _ = writeln!(text, "### {name}\n\n{}\n", cell(text_of(schema, "description")));
    let Some(properties) = schema["properties"].as_object() else { return };
    let required: BTreeSet<_> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    text.push_str("| field | what |\n|---|---|\n");
    for (field, value) in properties {
        let always = if required.contains(field.as_str()) { "" } else { "optional " };
        let _ = writeln!(text, "| `{field}` | {always}{}; {} |", kind(value), cell(text_of(value, "description")));
    }
    text.push('\n');
}

fn page() -> String {
    let document = document();
    let mut text = String::from(
        "# The API\n\n\
         A plane describes itself as OpenAPI 3.1 at `/api/v1/openapi.json`, without a token; this page is written from that\n\
         by a test. Every request but those to `/healthz`, `/readyz` and the description needs\n\
         `Authorization: Bearer <token>`; [roles](roles.md) says who may call what. Bodies are JSON of at most 1 MiB. Times\n\
         are RFC 3339 in UTC. Fields that have nothing to say are left out, and new fields may come: ignore what you do not\n\
         know. In requests unknown fields are errors.\n\n\
         Every answer has `X-Correlation-Id` and `traceparent`, which requests may send.\n\n\
         Lists come in pages: `page_size` entries after `cursor`; `next_cursor` of an answer is the `cursor` of the next page, and\n\
         absent on the last. A token may make 200 requests a second, 400 at once (`fettle-plane serve --rate --burst`).\n\n",
    );
    text.push_str(
        "These problems are not repeated below; [error codes](error-codes.md) says what to do about each, and about all others.\n\n",
    );
    common(&mut text);
    let mut areas: Vec<(&str, String)> = Vec::new();
    for (path, method, operation) in operations(&document) {
        let tag = operation["tags"][0].as_str().unwrap();
        if !areas.iter().any(|(known, _)| *known == tag) {
            areas.push((tag, String::new()));
        }
        let area = areas.iter_mut().find(|(known, _)| *known == tag).unwrap();
        endpoint(&mut area.1, path, method, operation);
    }
    for (tag, endpoints) in &areas {
        let _ = writeln!(text, "## {}{}\n\n{endpoints}", tag[..1].to_uppercase(), &tag[1..]);
    }
    text.push_str("## Bodies\n\n");
    for (name, value) in document["components"]["schemas"].as_object().unwrap() {
        schema(&mut text, name, value);
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

#[test]
fn the_page_of_the_api_is_what_the_plane_serves() {
    crate::reference::holds("api.md", &page(), "the_page_of_the_api");
}
