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

#[tokio::test]
async fn what_no_node_can_have_is_not_required() {
    let plane = plane().await;
    let mut definition = noop();
    definition["requires"] = json!({ "capabilities": { "gpu.vendor": ["nvidia", "voodoo"], "gpu.colour": ["green"] } });
    let (status, problem) = register(&plane, plane.shelf.publish_definition(&definition)).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
    let at = "/definition/requires/capabilities";
    assert_eq!(pointers(&problem), [format!("{at}/gpu.colour"), format!("{at}/gpu.vendor")]);
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

/// Registers `test.noop` at a version; its status is then this one.
async fn version(plane: &TestPlane, version: &str, status: &str) {
    let mut definition = noop();
    definition["version"] = json!(version);
    let mut body = plane.shelf.publish_definition(&definition);
    body["draft"] = json!(status == "draft");
    assert_eq!(register(plane, body).await.0, StatusCode::CREATED);
    if let Some(verb) = [("deprecated", "deprecate"), ("retired", "retire")].iter().find(|(name, _)| *name == status) {
        let path = format!("{PATH}/test.noop@{version}/{}", verb.1);
        assert_eq!(plane.call(&plane.admin, Method::POST, &path, None).await.0, StatusCode::OK);
    }
}

#[tokio::test]
async fn drafts_are_shown_to_platform_administrators_only() {
    let plane = plane().await;
    version(&plane, "v1", "published").await;
    version(&plane, "v2", "draft").await;
    let seen = async |token: &str| {
        let (_, list) = plane.call(token, Method::GET, PATH, None).await;
        let versions =
            list["items"].as_array().unwrap().iter().map(|item| item["version"].as_str().unwrap().to_owned());
        (versions.collect::<Vec<_>>(), plane.call(token, Method::GET, &format!("{PATH}/test.noop@v2"), None).await)
    };
    let (listed, (status, _)) = seen(&plane.admin).await;
    assert_eq!((listed, status), (vec!["v1".to_owned(), "v2".to_owned()], StatusCode::OK));
    let (listed, (status, draft)) = seen(&plane.member).await;
    let (_, nobodys) = plane.call(&plane.member, Method::GET, &format!("{PATH}/test.noop@v7"), None).await;
    assert_eq!((listed, status), (vec!["v1".to_owned()], StatusCode::NOT_FOUND));
    assert_eq!(draft.to_string().replace("@v2", "@v7"), nobodys.to_string(), "as unknown as what is not there");
}

#[tokio::test]
async fn definitions_are_listed_in_pages_and_by_status() {
    let plane = plane().await;
    for (number, status) in [("v1", "retired"), ("v2", "deprecated"), ("v9", "published"), ("v10", "published")] {
        version(&plane, number, status).await;
    }
    let list = async |query: String| {
        let page = plane.get(&format!("{PATH}?{query}")).await;
        let versions =
            page["items"].as_array().unwrap().iter().map(|item| item["version"].as_str().unwrap().to_owned());
        (versions.collect::<Vec<_>>().join(" "), page["next_cursor"].as_str().map(str::to_owned))
    };
    assert_eq!(list(String::new()).await, ("v1 v2 v9 v10".to_owned(), None));
    assert_eq!(list("status=published".to_owned()).await.0, "v9 v10");
    assert_eq!(list("operation_type=test.other".to_owned()).await.0, "");
    let (first, cursor) = list("page_size=3".to_owned()).await;
    assert_eq!((first.as_str(), cursor.as_deref()), ("v1 v2 v9", Some("test.noop@v9")));
    assert_eq!(list(format!("page_size=3&cursor={}", cursor.unwrap())).await, ("v10".to_owned(), None));
    let wrong = format!("{PATH}?cursor=x");
    assert_eq!(plane.call(&plane.member, Method::GET, &wrong, None).await.0, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn what_is_deprecated_says_so_wherever_it_is_used() {
    let plane = plane().await;
    let _host = plane.host("node-1", 1).await;
    for (number, status) in [("v1", "deprecated"), ("v2", "retired"), ("v3", "published"), ("v4", "draft")] {
        version(&plane, number, status).await;
    }
    let send = |method, path: &str| plane.http.request(method, plane.url(path)).bearer_auth(&plane.member);
    let header = |answer: &reqwest::Response, name: &str| {
        answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
    };
    let successor = format!("<{PATH}/test.noop@v3>; rel=\"successor-version\"");
    let shown = send(Method::GET, &format!("{PATH}/test.noop@v1")).send().await.unwrap();
    let since = header(&shown, "deprecation").unwrap();
    assert!(since.strip_prefix('@').is_some_and(|seconds| seconds.parse::<i64>().unwrap() > 1_700_000_000), "{since}");
    assert_eq!((header(&shown, "link"), header(&shown, "sunset")), (Some(successor.clone()), None));
    let retired = send(Method::GET, &format!("{PATH}/test.noop@v2")).send().await.unwrap();
    assert!(header(&retired, "sunset").unwrap().ends_with(" GMT") && header(&retired, "deprecation").is_none());
    let fresh = send(Method::GET, &format!("{PATH}/test.noop@v3")).send().await.unwrap();
    assert!(["deprecation", "sunset", "link"].into_iter().all(|name| header(&fresh, name).is_none()));

    let body = |version: &str| json!({ "operation_type": "test.noop", "version": version, "inputs": { "name": "x", "count": 1 }, "target_selector": { "node": "node-1" } });
    let operations = "/api/v1/projects/demo/operations";
    let submitted = send(Method::POST, operations).json(&body("v1")).send().await.unwrap();
    assert_eq!((header(&submitted, "deprecation"), header(&submitted, "link")), (Some(since), Some(successor)));
    let warning = "test.noop@v1 is deprecated and will go; move on to test.noop@v3";
    let expected = json!([{ "code": "definition.deprecated", "message": warning }]);
    assert_eq!(submitted.json::<Value>().await.unwrap()["warnings"], expected);
    let (_, planned) = plane.call(&plane.member, Method::POST, &format!("{operations}/plan"), Some(body("v1"))).await;
    assert_eq!(planned["warnings"], expected);
    let (_, fresh) = plane.call(&plane.member, Method::POST, operations, Some(body("v3"))).await;
    assert!(fresh.get("warnings").is_none(), "{fresh}");
    let listed = plane.get(operations).await;
    assert!(listed["items"][0].get("inputs").is_none() && listed["items"][0]["plan_digest"].is_string(), "{listed}");
    let one = format!("{operations}/{}", fresh["operation_id"].as_str().unwrap());
    assert_eq!(plane.get(&one).await["inputs"]["name"], "x");
}
