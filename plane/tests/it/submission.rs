//! Submitting, planning, listing.

use std::{collections::HashSet, sync::Arc};

use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::support::{plane, plane_with, pointers, request};

const PATH: &str = "/api/v1/projects/demo/operations";

#[tokio::test]
async fn an_operation_has_all_that_the_contract_asks_for() {
    let plane = plane().await;
    plane.with_definition().await;
    let host = plane.host("node-a", 1).await;
    let mut body = request("node-a");
    body["correlation_id"] = json!("ticket-7");
    let (status, shown) = plane.submit(body).await;
    assert_eq!(status, StatusCode::CREATED);
    for field in ["operation_id", "plan_digest", "created_at"] {
        assert!(shown[field].is_string(), "{field}");
    }
    for (field, value) in [
        ("operation_type", json!("test.noop")),
        ("version", json!("v1")),
        ("org_id", json!("default")),
        ("project_id", json!("demo")),
        ("target_selector", json!({ "node": "node-a" })),
        ("correlation_id", json!("ticket-7")),
        ("status", json!("queued")),
        ("trigger_source", json!("tenant_request")),
        ("linked_node_id", json!(host.id)),
    ] {
        assert_eq!(shown[field], value, "{field}");
    }
    assert!(shown["requested_by_user_id"].as_str().unwrap().ends_with(":member"));
    assert!(shown.get("idempotency_key").is_none());
}

#[tokio::test]
async fn everything_that_is_wrong_is_said_at_once_with_its_place() {
    let plane = plane().await;
    plane.with_definition().await;
    let mut body = request("nobody");
    body["inputs"] = json!({ "name": "", "count": "three", "extra": 1 });
    body["idempotency_key"] = json!("with space");
    let (status, problem) = plane.submit(body).await;
    assert_eq!((status, &problem["code"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("request.invalid")));
    let found: HashSet<_> = pointers(&problem).into_iter().collect();
    let expected = ["/inputs/name", "/inputs/count", "/inputs", "/target_selector/node", "/idempotency_key"];
    assert_eq!(found, expected.into_iter().collect(), "{problem}");
    assert_eq!(problem["type"], "urn:fettle:problem:request.invalid");

    let wrong = json!({ "operation_type": "Bad", "version": "1", "inputs": {}, "target_selector": { "node": "n" } });
    let (_, problem) = plane.submit(wrong).await;
    assert_eq!(pointers(&problem), ["/operation_type", "/version", "/target_selector/node"]);
    let (_, problem) =
        plane.submit(json!({ "operation_type": "a", "version": "v1", "target_selector": { "host": 1 } })).await;
    assert_eq!(pointers(&problem), ["/target_selector/host"]);
    let mut unknown = request("nobody");
    unknown["version"] = json!("v2");
    let (_, problem) = plane.submit(unknown).await;
    assert_eq!(pointers(&problem), ["/operation_type", "/target_selector/node"]);
    assert_eq!(plane.get(PATH).await["items"], json!([]));
}

#[tokio::test]
async fn what_is_not_json_is_not_a_server_error() {
    let plane = plane().await;
    let post = || plane.http.post(plane.url(PATH)).bearer_auth(&plane.member);
    let send = |body: &'static str| post().header("content-type", "application/json").body(body).send();
    let list = r#"["test.noop", "v1", {"name": "x", "count": 1}, {"node": "n"}]"#;
    let answer = send(list).await.unwrap();
    assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert!(answer.text().await.unwrap().contains("write a JSON object"));
    for media_type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        let sent = post().header("content-type", media_type).body("{}").send().await.unwrap();
        assert_eq!(sent.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE, "{media_type}");
    }
    for body in ["", "{", "[]", "null", "\u{0}"] {
        let status = send(body).await.unwrap().status();
        assert!(status == StatusCode::BAD_REQUEST || status == StatusCode::UNPROCESSABLE_ENTITY, "{body}: {status}");
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused() {
    let plane = plane_with(|config| config.request_limit_bytes = 1000).await;
    let mut body = request("node-a");
    body["inputs"]["name"] = json!("x".repeat(2000));
    let (status, problem) = plane.submit(body).await;
    assert_eq!((status, &problem["code"]), (StatusCode::PAYLOAD_TOO_LARGE, &json!("request.too_large")));
}

#[tokio::test]
async fn a_plan_is_computed_and_nothing_stored() {
    let plane = plane().await;
    plane.with_definition().await;
    let host = plane.host("node-a", 1).await;
    let (status, planned) =
        plane.call(&plane.member, Method::POST, &format!("{PATH}/plan"), Some(request("node-a"))).await;
    assert_eq!(status, StatusCode::OK, "{planned}");
    assert_eq!((&planned["node_id"], &planned["plan"]["steps"][0]["id"]), (&json!(host.id), &json!("first")));
    assert_eq!(plane.get(PATH).await["items"], json!([]));
    let (_, submitted) = plane.submit(request("node-a")).await;
    assert_eq!(submitted["plan_digest"], planned["plan_digest"]);
}

#[tokio::test]
async fn a_plan_says_who_asked_who_granted_and_what_the_node_allows() {
    let plane = plane().await;
    plane.with_definition().await;
    plane.host("node-a", 1).await;
    let (_, planned) = plane.call(&plane.member, Method::POST, &format!("{PATH}/plan"), Some(request("node-a"))).await;
    let access = &planned["access"];
    assert_eq!((&access["definition_signed_by"], &access["policy_signed_by"]), (&json!("tester"), &json!("tester")));
    assert_eq!(access["policy_revision"], 1);
    let steps: Vec<_> = access["steps"].as_array().unwrap().iter().map(|step| &step["step_id"]).collect();
    assert_eq!(steps, ["first", "second"]);
    assert_eq!(access["steps"][0]["capabilities"], json!([]), "{planned:#}");
    assert_eq!(planned["access_problem"], json!(null));
}

#[tokio::test]
async fn a_repeated_key_answers_the_first_operation() {
    let plane = plane().await;
    plane.with_definition().await;
    plane.host("node-a", 1).await;
    let mut body = request("node-a");
    body["idempotency_key"] = json!("once");
    let (status, first) = plane.submit(body.clone()).await;
    assert_eq!(status, StatusCode::CREATED);
    let (status, again) = plane.submit(body.clone()).await;
    assert_eq!((status, &again["operation_id"]), (StatusCode::OK, &first["operation_id"]));
    let header = plane.http.post(plane.url(PATH)).bearer_auth(&plane.member).header("idempotency-key", "once");
    let answer = header.json(&request("node-a")).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);

    let mut other = body.clone();
    other["inputs"]["count"] = json!(4);
    let (status, problem) = plane.submit(other).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("operation.key_reused")));
    let both = plane.http.post(plane.url(PATH)).bearer_auth(&plane.member).header("idempotency-key", "other");
    let answer = both.json(&body).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn a_thousand_requests_with_one_key_from_ten_clients_make_one_operation() {
    let plane = Arc::new(plane_with(|config| config.rate_limit = None).await);
    plane.with_definition().await;
    plane.host("node-a", 1).await;
    let mut body = request("node-a");
    body["idempotency_key"] = json!("thousand");
    let clients = (0..10).map(|_| {
        let (plane, body) = (Arc::clone(&plane), body.clone());
        tokio::spawn(async move {
            let http = reqwest::Client::new();
            let requests = (0..100).map(|_| async {
                let request = http.post(plane.url(PATH)).bearer_auth(&plane.member).json(&body);
                let response = request.send().await.unwrap();
                let status = response.status();
                let id =
                    response.json::<serde_json::Value>().await.unwrap()["operation_id"].as_str().unwrap().to_owned();
                (status, id)
            });
            futures::future::join_all(requests).await
        })
    });
    let answers: Vec<_> = futures::future::join_all(clients).await.into_iter().flat_map(Result::unwrap).collect();
    assert_eq!(answers.len(), 1000);
    let ids: HashSet<_> = answers.iter().map(|(_, id)| id).collect();
    assert_eq!(ids.len(), 1);
    let created = answers.iter().filter(|(status, _)| *status == StatusCode::CREATED).count();
    let repeated = answers.iter().filter(|(status, _)| *status == StatusCode::OK).count();
    assert_eq!((created, repeated), (1, 999));
    assert_eq!(plane.get(PATH).await["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn lists_are_paged_and_filtered() {
    let plane = plane().await;
    plane.with_definition().await;
    plane.host("node-a", 1).await;
    for _ in 0..5 {
        plane.submitted("node-a").await;
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = plane.get(&format!("{PATH}?page_size=2{cursor}")).await;
        seen.extend(
            page["items"].as_array().unwrap().iter().map(|item| item["operation_id"].as_str().unwrap().to_owned()),
        );
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen.iter().collect::<HashSet<_>>().len(), 5);
    assert!(plane.get(&format!("{PATH}?status=queued")).await["items"].as_array().unwrap().len() == 5);
    assert_eq!(plane.get(&format!("{PATH}?status=failed")).await["items"], json!([]));
    for wrong in ["?page_size=0", "?page_size=1001", "?cursor=x", "?status=gone", "?colour=red"] {
        let (status, problem) = plane.call(&plane.member, Method::GET, &format!("{PATH}{wrong}"), None).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::UNPROCESSABLE_ENTITY, &json!("request.invalid")),
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn a_correlation_id_comes_back() {
    let plane = plane().await;
    let send = |id: Option<&'static str>| {
        let mut request = plane.http.get(plane.url("/api/v1/nodes")).bearer_auth(&plane.member);
        if let Some(id) = id {
            request = request.header("x-correlation-id", id);
        }
        request.send()
    };
    assert_eq!(send(Some("ticket-7")).await.unwrap().headers()["x-correlation-id"], "ticket-7");
    assert_eq!(send(None).await.unwrap().headers()["x-correlation-id"].len(), 26);
    assert_eq!(send(Some("with space")).await.unwrap().headers()["x-correlation-id"].len(), 26);
    let unknown = plane.http.get(plane.url("/nowhere")).header("x-correlation-id", "t").send().await.unwrap();
    assert_eq!(
        (unknown.status(), &unknown.headers()["x-correlation-id"].to_str().unwrap()),
        (StatusCode::NOT_FOUND, &"t")
    );
    assert_eq!(plane.call(&plane.member, Method::DELETE, PATH, None).await.0, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn a_node_without_what_is_required_is_refused() {
    let plane = plane().await;
    let mut definition = crate::support::shelf::noop();
    definition["requires"] = json!({ "capabilities": { "gpu.vendor": ["amd"], "fabric.type": ["infiniband"] } });
    let body = plane.shelf.publish_definition(&definition);
    plane.call(&plane.admin, Method::POST, "/api/v1/admin/operation-definitions", Some(body)).await;
    plane.host("node-a", 1).await;
    let (_, problem) = plane.submit(request("node-a")).await;
    let messages: Vec<_> =
        problem["violations"].as_array().unwrap().iter().map(|one| one["message"].as_str().unwrap()).collect();
    assert!(
        messages[0].contains("has fabric.type unknown") && messages[1].contains("has gpu.vendor nvidia"),
        "{problem}"
    );
}
