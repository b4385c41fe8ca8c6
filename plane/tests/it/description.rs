//! The description of the API, and that it is one of the whole API.

use std::path::Path;

use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::support::plane;

/// From a source file to the URL that it stands for: `v1/nodes/show.rs` is `/api/v1/nodes`.
fn folders(directory: &Path, url: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().replace('_', "-");
        if path.is_dir() {
            folders(&path, &format!("{url}/{name}"), found);
        } else if std::fs::read_to_string(&path).unwrap().contains("#[utoipa::path(") {
            found.push(url.to_owned());
        }
    }
}

fn described(document: &Value) -> Vec<(String, Method)> {
    let paths = document["paths"].as_object().unwrap();
    let methods = |path: &String, item: &Value| {
        let of = |name: &String| (path.clone(), name.to_uppercase().parse().unwrap());
        item.as_object()
            .unwrap()
            .keys()
            .filter(|name| ["get", "post", "put", "patch", "delete"].contains(&name.as_str()))
            .map(of)
            .collect::<Vec<_>>()
    };
    paths.iter().flat_map(|(path, item)| methods(path, item)).collect()
}

#[tokio::test]
async fn every_endpoint_is_described_and_every_description_is_served() {
    let plane = plane().await;
    let document =
        plane.http.get(plane.url("/api/v1/openapi.json")).send().await.unwrap().json::<Value>().await.unwrap();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let described = described(&document);
    let mut files = Vec::new();
    folders(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api"), "", &mut files);
    assert_eq!(described.len(), files.len(), "each endpoint is one file: {described:?}");
    for (path, method) in described {
        let url = path
            .replace("{project}", "demo")
            .replace("{operation_id}", "x")
            .replace("{id}", "x")
            .replace("{node}", "x")
            .replace("{tenant}", "x")
            .replace("{operation_type}", "x")
            .replace("{group}", "x")
            .replace("{allocation}", "x")
            .replace("{webhook}", "x");
        let status = plane.call("no token", method.clone(), &url, None).await.0;
        let open = ["/healthz", "/readyz", "/api/v1/openapi.json"].contains(&path.as_str());
        let expected = if open { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
        assert_eq!(status, expected, "{method} {path}");
    }
}

#[tokio::test]
async fn references_in_the_description_resolve() {
    let plane = plane().await;
    let document =
        plane.http.get(plane.url("/api/v1/openapi.json")).send().await.unwrap().json::<Value>().await.unwrap();
    let mut waiting = vec![&document];
    let mut references = 0;
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(object) => {
                if let Some(target) = object.get("$ref").and_then(Value::as_str) {
                    assert!(document.pointer(target.trim_start_matches('#')).is_some(), "{target}");
                    references += 1;
                }
                waiting.extend(object.values());
            }
            Value::Array(values) => waiting.extend(values),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    assert!(references > 10);
}

#[tokio::test]
async fn what_every_endpoint_may_answer_is_described_of_every_endpoint() {
    let plane = plane().await;
    let document =
        plane.http.get(plane.url("/api/v1/openapi.json")).send().await.unwrap().json::<Value>().await.unwrap();
    for (path, method) in described(&document) {
        let responses = &document["paths"][&path][method.as_str().to_lowercase()]["responses"];
        let open = ["/healthz", "/readyz", "/api/v1/openapi.json"].contains(&path.as_str());
        for status in ["401", "429"] {
            assert_eq!(responses.get(status).is_none(), open, "{method} {path} {status}");
        }
    }
}
