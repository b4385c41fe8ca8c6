//! Registering definitions.

use fettle_supply::ArtifactKind;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{Answer, TestPlane, plane, pointers, shelf::noop};

const PATH: &str = "/api/v1/admin/operation-definitions";

async fn register(plane: &TestPlane, body: Value) -> Answer {
    plane.call(&plane.admin, Method::POST, PATH, Some(body)).await
}

#[tokio::test]
async fn a_registered_version_is_shown_by_id_and_by_name() {
    let plane = plane().await;
    let created = plane.with_definition().await;
    assert_eq!(created["steps"][1]["needs"], json!(["first"]));
    assert_eq!(created["definition"]["summary"], "does nothing, twice");
    let id = created["id"].as_str().unwrap();
    for name in [id, "test.noop@v1"] {
        assert_eq!(plane.get(&format!("{PATH}/{name}")).await, created);
    }
    assert_eq!(plane.get(PATH).await["items"][0]["id"], created["id"]);
    let (status, problem) = plane.call(&plane.member, Method::GET, &format!("{PATH}/test.noop@v2"), None).await;
    assert_eq!((status, &problem["code"]), (StatusCode::NOT_FOUND, &json!("definition.unknown")));
}

#[tokio::test]
async fn registering_again_is_idempotent_and_changing_is_refused() {
    let plane = plane().await;
    let body = plane.shelf.publish_noop();
    assert_eq!(register(&plane, body.clone()).await.0, StatusCode::CREATED);
    assert_eq!(register(&plane, body.clone()).await.0, StatusCode::OK);
    let mut changed = noop();
    changed["summary"] = json!("does something else");
    let (status, problem) = register(&plane, plane.shelf.publish_definition(&changed)).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("definition.exists")));
    assert!(problem["detail"].as_str().unwrap().contains("write a new version"));
    assert_eq!(plane.get(&format!("{PATH}/test.noop@v1")).await["summary"], "does nothing, twice");
}

#[tokio::test]
async fn every_bad_reference_is_named() {
    let plane = plane().await;
    let body = json!({ "definition": "localhost:5000/a:v1", "catalog": "nothing", "policy": "localhost:5000/b" });
    let (status, problem) = register(&plane, body).await;
    assert_eq!((status, &problem["code"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("request.invalid")));
    assert_eq!(pointers(&problem), ["/definition", "/catalog", "/policy"]);
    assert!(problem["violations"][0]["message"].as_str().unwrap().contains("names a tag"));
}

#[tokio::test]
async fn what_is_not_signed_is_not_registered() {
    let plane = plane().await;
    let mut body = plane.shelf.publish_noop();
    let other = format!("localhost:5000/catalog@{}", fettle_model::digest::Digest::of(b"other"));
    body["catalog"] = json!(other);
    let (status, problem) = register(&plane, body).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(pointers(&problem), ["/catalog"]);
    assert!(problem["violations"][0]["message"].as_str().unwrap().starts_with("UNSIGNED"));
}

#[tokio::test]
async fn everything_that_is_unsound_is_said_at_once() {
    let plane = plane().await;
    let mut definition = noop();
    definition["steps"][0]["needs"] = json!(["second"]);
    definition["steps"][1]["with"] = json!({ "x": "${{ steps.third.y }}" });
    let (status, problem) = register(&plane, plane.shelf.publish_definition(&definition)).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
    let found = pointers(&problem);
    assert!(found.contains(&"/definition/steps"), "{problem}");
    assert!(found.iter().any(|pointer| pointer.starts_with("/definition/steps/1/with")), "{problem}");
}

#[tokio::test]
async fn a_step_that_is_not_in_the_catalog_is_named() {
    let plane = plane().await;
    let mut definition = noop();
    definition["steps"][1]["uses"] = json!("file.render@v1");
    let (status, problem) = register(&plane, plane.shelf.publish_definition(&definition)).await;
    assert_eq!((status, pointers(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, vec!["/definition/steps/1/uses"]));
}

#[tokio::test]
async fn a_catalog_cannot_pass_one_step_for_another() {
    let plane = plane().await;
    let mut body = plane.shelf.publish_noop();
    let other = plane.shelf.publish_step("file.render@v1");
    let catalog = json!({ "steps": { "test.noop@v1": other } });
    body["catalog"] = json!(plane.shelf.publish(ArtifactKind::Catalog, &catalog, None));
    let (status, problem) = register(&plane, body).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(problem["violations"][0]["message"].as_str().unwrap().contains("says itself that it is `file.render@v1`"));
}

#[tokio::test]
async fn a_grant_beyond_the_ceiling_is_refused_before_any_node_sees_it() {
    let plane = plane().await;
    let descriptor = json!({
        "kind": "test.exec@v1", "summary": "runs", "effect": "consume", "probes": false,
        "input_schema": { "type": "object" }, "output_schema": { "type": "object" },
        "requests": { "exec": "it runs a profile" },
    });
    let step = plane.shelf.publish(ArtifactKind::Step, &json!("exec"), Some(descriptor));
    let mut definition = noop();
    definition["steps"] =
        json!([{ "id": "run", "uses": "test.exec@v1", "grants": { "exec": { "profiles": ["reboot"] } } }]);
    let body = json!({
        "definition": plane.shelf.publish(ArtifactKind::Definition, &definition, None),
        "catalog": plane.shelf.publish(ArtifactKind::Catalog, &json!({ "steps": { "test.exec@v1": step } }), None),
        "policy": plane.shelf.publish(ArtifactKind::PolicyBundle, &json!({ "revision": 1 }), None),
    });
    let (status, problem) = register(&plane, body).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(pointers(&problem), ["/definition/steps/0/grants/exec/profiles"]);
    let line = "write `ceiling: { exec: { profiles: [reboot] } }` at the top of the policy bundle";
    assert!(problem.to_string().contains(line), "{problem:#}");
}

/// Submits an operation of the definition; the status and the answer.
async fn submit(plane: &TestPlane) -> Answer {
    let body = json!({ "operation_type": "test.noop", "version": "v1", "inputs": { "name": "x", "count": 1 }, "target_selector": { "node": "node-1" } });
    plane.call(&plane.member, Method::POST, "/api/v1/projects/demo/operations", Some(body)).await
}

#[tokio::test]
async fn a_draft_is_amended_published_deprecated_and_retired() {
    let plane = plane().await;
    let _host = plane.host("node-1", 1).await;
    let one = format!("{PATH}/test.noop@v1");
    let admin = async |method, path: &str, body| plane.call(&plane.admin, method, path, Some(body)).await;
    let refused = async |status: &str| {
        let (code, problem) = submit(&plane).await;
        assert_eq!((code, pointers(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, vec!["/version"]), "{problem}");
        assert!(problem["violations"][0]["message"].as_str().unwrap().contains(status), "{problem}");
    };
    let mut body = plane.shelf.publish_noop();
    body["draft"] = json!(true);
    assert_eq!(register(&plane, body).await.1["status"], "draft");
    refused("is draft").await;

    let mut changed = noop();
    changed["summary"] = json!("does something else");
    let definition = plane.shelf.publish_definition(&changed)["definition"].clone();
    let (_, amended) = admin(Method::PATCH, &one, json!({ "definition": definition })).await;
    assert_eq!((&amended["status"], &amended["summary"]), (&json!("draft"), &json!("does something else")));
    let (_, published) = admin(Method::PATCH, &one, json!({ "publish": true })).await;
    assert_eq!((&published["status"], &published["id"]), (&json!("published"), &amended["id"]));
    let (status, problem) = admin(Method::PATCH, &one, json!({ "definition": definition })).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("definition.status")));
    assert_eq!(submit(&plane).await.0, StatusCode::CREATED);

    assert_eq!(admin(Method::POST, &format!("{one}/deprecate"), json!({})).await.1["status"], "deprecated");
    assert_eq!(submit(&plane).await.0, StatusCode::CREATED, "what is deprecated can be used");
    assert_eq!(admin(Method::POST, &format!("{one}/retire"), json!({})).await.1["status"], "retired");
    refused("is retired").await;
    let (status, problem) = admin(Method::POST, &format!("{one}/deprecate"), json!({})).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("definition.status")));
}

#[tokio::test]
async fn only_a_platform_administrator_changes_the_life_of_a_definition() {
    let plane = plane().await;
    plane.with_definition().await;
    for (method, path) in [
        (Method::PATCH, format!("{PATH}/test.noop@v1")),
        (Method::POST, format!("{PATH}/test.noop@v1/deprecate")),
        (Method::POST, format!("{PATH}/test.noop@v1/retire")),
    ] {
        let (status, problem) = plane.call(&plane.member, method, &path, Some(json!({}))).await;
        assert_eq!((status, &problem["code"]), (StatusCode::FORBIDDEN, &json!("access.denied")), "{path}");
    }
    let missing = plane.call(&plane.admin, Method::POST, &format!("{PATH}/test.noop@v7/retire"), None).await;
    assert_eq!((missing.0, &missing.1["code"]), (StatusCode::NOT_FOUND, &json!("definition.unknown")));
}
