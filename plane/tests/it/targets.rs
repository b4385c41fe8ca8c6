//! Operations on several nodes: who is meant, and what limits them.

use fettle_model::reference::Reference;
use fettle_wire::node::Lease;
use futures::future::select_all;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{
    TestPlane, host,
    host::{FakeHost, Pull},
    in_project, plane, pointers, request,
    shelf::noop,
    within,
};
use fettle_plane::administration::{Access, ProjectRole};

const OPERATIONS: &str = "/api/v1/projects/demo/operations";

fn aimed(selector: &Value) -> Value {
    let mut body = request("nobody");
    body["target_selector"] = selector.clone();
    body
}

async fn tenant(plane: &TestPlane) -> String {
    plane.token("tenant", Access::TenantAdmin { org_id: "default".parse().unwrap() }).await
}

async fn three(plane: &TestPlane) -> Vec<FakeHost> {
    plane.with_definition().await;
    let mut hosts = Vec::new();
    for name in ["node-a", "node-b", "node-c"] {
        hosts.push(plane.host(name, 1).await);
    }
    hosts
}

fn names(shown: &Value) -> Vec<&str> {
    shown["nodes"].as_array().unwrap().iter().map(|node| node["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn an_expression_a_group_and_an_allocation_stand_for_nodes() {
    let plane = plane().await;
    let hosts = three(&plane).await;
    let admin = plane.token("boss", in_project("demo", ProjectRole::Admin)).await;
    let tenant = tenant(&plane).await;
    for (url, node, giver) in [("node-groups/canary", "node-b", &admin), ("allocations/a-7", "node-c", &tenant)] {
        let path = format!("/api/v1/projects/demo/{url}");
        let body = json!({ "nodes": [node, "node-a"] });
        let (status, shown) = plane.call(giver, Method::PUT, &path, Some(body)).await;
        assert_eq!(status, StatusCode::OK, "{shown}");
        assert_eq!(plane.get(&path).await["nodes"].as_array().unwrap().len(), 2);
    }
    for list in ["/api/v1/projects/demo/node-groups", "/api/v1/projects/demo/allocations"] {
        assert_eq!(plane.get(list).await["items"].as_array().unwrap().len(), 1);
    }
    for (selector, expected) in [
        (json!({ "label": "labels.region == 'eu' && labels.role != 'node-b'" }), vec!["node-a", "node-c"]),
        (json!({ "group": "canary" }), vec!["node-a", "node-b"]),
        (json!({ "allocation": "a-7" }), vec!["node-a", "node-c"]),
        (json!({ "node": hosts[1].id }), vec!["node-b"]),
    ] {
        let (status, created) = plane.submit(aimed(&selector)).await;
        assert_eq!(status, StatusCode::CREATED, "{created}");
        let shown = plane.get(&format!("{OPERATIONS}/{}", created["operation_id"].as_str().unwrap())).await;
        assert_eq!(names(&shown), expected, "{selector}");
        assert_eq!(shown["target_selector"], selector);
        assert_eq!(shown["total_nodes"], expected.len());
        assert_eq!(shown["steps"].as_array().unwrap().len(), 2 * expected.len());
        assert_eq!(shown.get("linked_node_id").is_some(), expected.len() == 1);
        let allocation = selector.get("allocation");
        assert_eq!(shown.get("linked_allocation_id"), allocation);
    }
    let path = "/api/v1/projects/demo/node-groups/canary";
    assert_eq!(plane.call(&admin, Method::DELETE, path, None).await.0, StatusCode::NO_CONTENT);
    for method in [Method::GET, Method::DELETE] {
        assert_eq!(plane.call(&admin, method, path, None).await.0, StatusCode::NOT_FOUND);
    }
    let path = "/api/v1/projects/demo/allocations/a-7";
    assert_eq!(plane.call(&tenant, Method::DELETE, path, None).await.0, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn a_selector_that_stands_for_nothing_is_refused_with_the_reason() {
    let plane = plane().await;
    three(&plane).await;
    for (selector, pointer, words) in [
        (json!({ "label": "labels.region == 'mars'" }), "/target_selector/label", "true of no node"),
        (json!({ "label": "labels.region ==" }), "/target_selector/label", "not a CEL expression"),
        (json!({ "group": "nobody" }), "/target_selector/group", "no node group `nobody`"),
        (json!({ "allocation": "none" }), "/target_selector/allocation", "no allocation `none`"),
        (json!({ "node": "node-a", "group": "x" }), "/target_selector", "write one of"),
        (json!({}), "/target_selector", "write one of"),
    ] {
        let (status, problem) = plane.submit(aimed(&selector)).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
        assert_eq!(pointers(&problem), [pointer], "{problem}");
        let message = problem["violations"][0]["message"].as_str().unwrap();
        assert!(message.contains(words), "{message}");
    }
}

#[tokio::test]
async fn a_group_holds_nodes_of_its_own_project_only() {
    let plane = plane().await;
    three(&plane).await;
    let admin = plane.token("boss", in_project("demo", ProjectRole::Admin)).await;
    let path = "/api/v1/projects/demo/node-groups/canary";
    let put =
        async |token: &str, nodes: Value| plane.call(token, Method::PUT, path, Some(json!({ "nodes": nodes }))).await;
    let (status, problem) = put(&admin, json!(["node-a", "node-x"])).await;
    assert_eq!((status, pointers(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, vec!["/nodes/1"]));
    let (status, problem) = put(&admin, json!([])).await;
    assert_eq!((status, pointers(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, vec!["/nodes"]));
    assert_eq!(put(&plane.member, json!(["node-a"])).await.0, StatusCode::FORBIDDEN);
    let stranger = plane.token("stranger", in_project("other", ProjectRole::Admin)).await;
    assert_eq!(put(&stranger, json!(["node-a"])).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_allocation_is_given_to_a_project_and_not_taken_by_it() {
    let plane = plane().await;
    three(&plane).await;
    let admin = plane.token("boss", in_project("demo", ProjectRole::Admin)).await;
    let path = "/api/v1/projects/demo/allocations/a-7";
    let body = Some(json!({ "nodes": ["node-a"] }));
    for token in [&admin, &plane.member] {
        assert_eq!(plane.call(token, Method::PUT, path, body.clone()).await.0, StatusCode::FORBIDDEN);
        assert_eq!(plane.call(token, Method::DELETE, path, None).await.0, StatusCode::FORBIDDEN);
    }
    assert_eq!(plane.call(&tenant(&plane).await, Method::PUT, path, body).await.0, StatusCode::OK);
    assert_eq!(plane.call(&admin, Method::GET, path, None).await.0, StatusCode::OK);
}

/// The lease that comes first, and the number of its host.
async fn first_of(pulls: &mut [Pull]) -> (usize, Lease) {
    let (lease, host, _) = select_all(pulls.iter_mut().map(|pull| Box::pin(pull.lease()))).await;
    (host, lease)
}

/// Its task is the first, and its node is woken first.
#[tokio::test]
async fn a_node_that_holds_the_components_goes_before_those_that_have_to_fetch_them() {
    let plane = plane().await;
    let mut hosts = three(&plane).await;
    let known = plane.get(&plane.submitted("node-a").await).await;
    let components = known["steps"].as_array().unwrap().iter().map(|step| {
        let reference: Reference = step["component"].as_str().unwrap().parse().unwrap();
        reference.digest.short()
    });
    let _last = hosts[2].pull_holding(&[], 0, components.collect()).await;
    let order = async |most: Option<u32>| {
        let mut body = aimed(&json!({ "label": "labels.region == 'eu'" }));
        body["max_parallel_nodes"] = json!(most);
        let (status, created) = plane.submit(body).await;
        assert_eq!(status, StatusCode::CREATED, "{created}");
        let shown = plane.get(&format!("{OPERATIONS}/{}", created["operation_id"].as_str().unwrap())).await;
        let mut nodes = shown["nodes"].as_array().unwrap().clone();
        nodes.sort_by_key(|node| node["task_id"].as_str().unwrap().to_owned());
        nodes.iter().map(|node| node["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // The stream's first message is read on its own time.
    within(async { while order(Some(1)).await[0] != "node-c" {} }).await;
    assert_eq!(order(None).await, ["node-a", "node-b", "node-c"], "all go at once");
}

#[tokio::test]
async fn one_node_after_the_other_and_no_further_once_the_budget_is_spent() {
    let plane = plane().await;
    let mut hosts = three(&plane).await;
    let mut body = aimed(&json!({ "label": "true" }));
    body["max_parallel_nodes"] = json!(1);
    body["failure_budget"] = json!(0);
    let mut pulls = Vec::new();
    for host in &mut hosts {
        pulls.push(host.pull(&[], 1).await);
    }
    let (_, created) = plane.submit(body).await;
    let path = format!("{OPERATIONS}/{}", created["operation_id"].as_str().unwrap());
    let (first, lease) = first_of(&mut pulls).await;
    let shown = plane.get(&path).await;
    for (number, node) in shown["nodes"].as_array().unwrap().iter().enumerate() {
        let codes = node.get("waits_for").into_iter().flat_map(|waits| waits.as_array().unwrap());
        let waits = codes.filter(|wait| wait["code"] == "operation.parallel_nodes").count();
        assert_eq!(waits, usize::from(number != first), "{shown}");
    }
    hosts[first].execute(&lease).await;
    let (second, lease) = first_of(&mut pulls).await;
    hosts[second].ack(&lease).await.unwrap();
    let failure = json!({ "class": "permanent", "code": "disk.broken", "message": "the disk is broken" });
    hosts[second].fail(&lease, failure, "first").await.unwrap();
    let shown = plane.get(&path).await;
    assert_eq!((&shown["status"], &shown["failure"]["code"]), (&json!("failed"), &json!("disk.broken")));
    let statuses: Vec<_> = shown["nodes"].as_array().unwrap().iter().map(|node| &node["status"]).collect();
    let mut expected = ["skipped"; 3];
    (expected[first], expected[second]) = ("succeeded", "failed");
    assert_eq!(statuses, expected);
}

#[tokio::test]
async fn a_retry_runs_what_did_not_succeed_and_numbers_its_attempts() {
    let plane = plane().await;
    plane.with_definition().await;
    let mut host = plane.host("node-a", 1).await;
    let mut pull = host.pull(&[], 1).await;
    let path = plane.submitted("node-a").await;
    let retry = format!("{path}/retry");
    let admin = plane.token("boss", in_project("demo", ProjectRole::Admin)).await;
    assert_eq!(plane.call(&plane.member, Method::POST, &retry, None).await.0, StatusCode::FORBIDDEN);
    let (status, problem) = plane.call(&admin, Method::POST, &retry, None).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("operation.not_over")));
    let lease = pull.lease().await;
    host.ack(&lease).await.unwrap();
    let mut reports = host.reports().await;
    reports.say(&lease, 1, &host::started("first", 1)).await;
    reports.say(&lease, 2, &host::succeeded("first", json!({ "path": "x" }))).await;
    reports.say(&lease, 3, &host::started("second", 1)).await;
    let failure = json!({ "class": "unknown", "code": "node.crashed", "message": "nobody knows" });
    host.fail(&lease, failure, "second").await.unwrap();

    let (status, problem) = plane.call(&admin, Method::POST, &retry, None).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("operation.outcome_unknown")));
    let accept = json!({ "accept_unknown": true, "nodes": ["node-z"] });
    let (status, problem) = plane.call(&admin, Method::POST, &retry, Some(accept)).await;
    assert_eq!((status, pointers(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, vec!["/nodes/0"]));
    for seconds in [0, 31_622_401_u32] {
        let accept = json!({ "accept_unknown": true, "timeout_seconds": seconds });
        let (status, problem) = plane.call(&admin, Method::POST, &retry, Some(accept)).await;
        assert_eq!((status, pointers(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, vec!["/timeout_seconds"]));
    }
    let accept = json!({ "accept_unknown": true, "nodes": ["node-a"] });
    let (status, shown) = plane.call(&admin, Method::POST, &retry, Some(accept)).await;
    assert_eq!((status, &shown["status"], &shown["run"]), (StatusCode::OK, &json!("queued"), &json!(2)), "{shown}");
    assert!(shown.get("failure").is_none());

    pull.free(1).await;
    let again = pull.lease().await;
    assert_ne!(again.task_id, lease.task_id);
    assert_eq!(json!(host::task(&again).accepted), json!({ "first": { "path": "x" } }));
    host.ack(&again).await.unwrap();
    let mut reports = host.reports().await;
    reports.say(&again, 1, &host::started("second", 1)).await;
    reports.say(&again, 2, &host::succeeded("second", json!({}))).await;
    host.complete(&again, false).await.unwrap();
    let shown = plane.get(&path).await;
    assert_eq!(shown["status"], "succeeded", "{shown}");
    let attempts: Vec<_> = shown["steps"].as_array().unwrap().iter().map(|step| &step["attempt_number"]).collect();
    assert_eq!(attempts, [1, 2]);
}

#[tokio::test]
async fn an_operation_that_nobody_takes_in_time_fails() {
    let plane = plane().await;
    plane.with_definition().await;
    plane.host("node-a", 1).await;
    let mut body = request("node-a");
    body["timeout_seconds"] = json!(1);
    let (status, created) = plane.submit(body).await;
    assert_eq!(status, StatusCode::CREATED, "{created}");
    let path = format!("{OPERATIONS}/{}", created["operation_id"].as_str().unwrap());
    let mut events = plane.follow(&format!("{path}/events?follow=true"), None).await;
    while let Some(event) = events.next().await {
        if event.event == "operation.failed" {
            break;
        }
    }
    let shown = plane.get(&path).await;
    assert_eq!(shown["failure"]["code"], "operation.deadline_exceeded", "{shown}");
}

#[tokio::test]
async fn an_operation_of_another_backend_is_registered_and_refused_at_submission() {
    let plane = plane().await;
    plane.host("node-a", 1).await;
    let mut definition = noop();
    definition["backend_type"] = json!("slurm_adapter");
    let body = plane.shelf.publish_definition(&definition);
    let path = "/api/v1/admin/operation-definitions";
    let (status, shown) = plane.call(&plane.admin, Method::POST, path, Some(body)).await;
    assert_eq!(status, StatusCode::CREATED, "{shown}");
    let (status, problem) = plane.submit(request("node-a")).await;
    assert_eq!((status, pointers(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, vec!["/operation_type"]));
    assert!(problem["violations"][0]["message"].as_str().unwrap().contains("no backend"), "{problem}");
}
