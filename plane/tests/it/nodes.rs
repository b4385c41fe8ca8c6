//! Nodes: joining, certificates, heartbeats, who sees them.

use fettle_plane::administration::{self, ProjectRole};
use reqwest::{Method, StatusCode};
use serde_json::json;
use tonic::Code;

use crate::support::{host::FakeHost, in_project, plane, request};

#[tokio::test]
async fn a_node_is_online_while_it_is_heard_of() {
    let plane = plane().await;
    let mut host = plane.host("node-a", 3).await;
    let node = plane.get("/api/v1/nodes/node-a").await;
    assert_eq!((&node["status"], &node["slots"], &node["running_tasks"]), (&json!("offline"), &json!(3), &json!(0)));
    assert_eq!(node["capabilities"], json!({ "gpu.vendor": "nvidia" }));
    host.heartbeat().await.unwrap();
    let node = plane.get(&format!("/api/v1/nodes/{}", host.id)).await;
    assert_eq!((&node["status"], &node["name"]), (&json!("online"), &json!("node-a")));
    assert_eq!(plane.get("/api/v1/nodes").await["items"], json!([node]));
}

#[tokio::test]
async fn only_a_join_token_that_is_not_used_up_joins() {
    let plane = plane().await;
    let join = plane.join_token(1).await;
    let (_, authority) = join.split_once('.').unwrap();
    let token = |secret: &str| format!("{secret}.{authority}");
    let wrong = FakeHost::join(&plane.running, &token("fettle_join_wrong"), "node-a", 1).await.err().unwrap();
    assert_eq!(wrong.code(), Code::Unauthenticated);
    // A bearer token is no join token.
    let wrong = FakeHost::join(&plane.running, &token(&plane.admin), "node-a", 1).await.err().unwrap();
    assert_eq!(wrong.code(), Code::Unauthenticated);
    FakeHost::join(&plane.running, &join, "node-a", 1).await.unwrap();
    let late = FakeHost::join(&plane.running, &join, "node-b", 1).await.err().unwrap();
    assert_eq!(late.code(), Code::Unauthenticated);
    assert!(late.message().contains("join-token create"));
}

#[tokio::test]
async fn a_known_node_registers_again_with_its_own_certificate() {
    let plane = plane().await;
    let mut host = plane.host("node-a", 1).await;
    let again = host.register_again(4).await.unwrap();
    assert_eq!(again.node_id, host.id);
    assert_eq!(plane.get("/api/v1/nodes/node-a").await["slots"], 4);
    let wrong = host.as_a_stranger(&plane.running).register_again(4).await.unwrap_err();
    assert_eq!(wrong.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn a_node_speaks_for_itself_only() {
    let plane = plane().await;
    plane.with_definition().await;
    let mut own = plane.host("node-a", 1).await;
    let other = plane.host("node-b", 1).await;
    let mut pull = own.pull(&[], 1).await;
    plane.submitted("node-a").await;
    let lease = pull.lease().await;
    // The other node's certificate with this node's id, then with its own id.
    let mut forged = own.with_certificate_of(&other);
    assert_eq!(forged.ack(&lease).await.unwrap_err().code(), Code::PermissionDenied);
    assert_eq!(forged.heartbeat().await.unwrap_err().code(), Code::PermissionDenied);
    assert_eq!(forged.complete(&lease, false).await.unwrap_err().code(), Code::PermissionDenied);
    assert_eq!(forged.pull(&[], 1).await.next().await.unwrap_err().code(), Code::PermissionDenied);
    assert_eq!(other.clone().ack(&lease).await.unwrap_err().code(), Code::FailedPrecondition);
    let mut nobody = own.as_a_stranger(&plane.running);
    assert_eq!(nobody.heartbeat().await.unwrap_err().code(), Code::Unauthenticated);
    own.ack(&lease).await.unwrap();
}

#[tokio::test]
async fn a_strange_registration_is_refused_with_a_reason() {
    let plane = plane().await;
    let join = plane.join_token(9).await;
    for (name, slots) in [("Node A", 1), ("", 1), ("node-a", 0), ("node-a", 5000)] {
        let refused = FakeHost::join(&plane.running, &join, name, slots).await.err().unwrap();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    }
}

#[tokio::test]
async fn a_node_of_another_project_does_not_exist() {
    let plane = plane().await;
    plane.with_definition().await;
    let administration = plane.administration().await;
    let owner = administration::project("other".parse().unwrap(), None);
    let join = administration.create_join_token(1, owner, std::time::Duration::from_secs(60)).await.unwrap();
    FakeHost::join(&plane.running, join.reveal(), "theirs", 1).await.unwrap();
    let (status, _) = plane.call(&plane.member, Method::GET, "/api/v1/nodes/theirs", None).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(plane.get("/api/v1/nodes").await["items"], json!([]));
    // Nor can an operation of one project be sent to it, whoever submits it.
    let path = "/api/v1/projects/demo/operations";
    let (status, problem) = plane.call(&plane.admin, Method::POST, path, Some(request("theirs"))).await;
    assert_eq!(
        (status, &problem["violations"][0]["pointer"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("/target_selector/node"))
    );
    let owner = plane.token("owner", in_project("other", ProjectRole::Member)).await;
    let (status, _) = plane.call(&owner, Method::GET, "/api/v1/nodes/theirs", None).await;
    assert_eq!(status, StatusCode::OK);
    let path = "/api/v1/projects/other/operations";
    let (status, problem) = plane.call(&owner, Method::POST, path, Some(request("theirs"))).await;
    assert_eq!(status, StatusCode::CREATED, "{problem}");
}

#[tokio::test]
async fn nodes_are_listed_in_pages_and_by_status() {
    let plane = plane().await;
    for name in ["node-c", "node-a", "node-b"] {
        plane.host(name, 1).await.heartbeat().await.unwrap();
    }
    let list = async |query: &str| {
        let page = plane.get(&format!("/api/v1/nodes?{query}")).await;
        let names = page["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned());
        (names.collect::<Vec<_>>().join(" "), page["next_cursor"].as_str().map(str::to_owned))
    };
    assert_eq!(list("page_size=2").await, ("node-a node-b".to_owned(), Some("node-b".to_owned())));
    assert_eq!(list("page_size=2&cursor=node-b").await, ("node-c".to_owned(), None));
    assert_eq!(list("status=online").await.0, "node-a node-b node-c");
    assert_eq!(list("status=offline").await.0, "");
}

#[tokio::test]
async fn a_revoked_node_is_heard_no_more_and_takes_no_operation() {
    let plane = plane().await;
    plane.with_definition().await;
    let mut host = plane.host("node-a", 1).await;
    let mut pull = host.pull(&[], 1).await;
    host.heartbeat().await.unwrap();
    let viewer = plane.token("viewer", in_project("demo", ProjectRole::Viewer)).await;
    for token in [&viewer, &plane.member] {
        let (status, problem) = plane.call(token, Method::POST, "/api/v1/nodes/node-a/revoke", None).await;
        assert_eq!((status, &problem["code"]), (StatusCode::FORBIDDEN, &json!("access.denied")), "{problem}");
    }
    let (status, _) = plane.call(&plane.admin, Method::POST, "/api/v1/nodes/nobody/revoke", None).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    host.heartbeat().await.unwrap();
    for _ in 0..2 {
        let (status, node) = plane.call(&plane.admin, Method::POST, "/api/v1/nodes/node-a/revoke", None).await;
        assert_eq!((status, &node["status"]), (StatusCode::OK, &json!("revoked")), "{node}");
        assert!(node["revoked_at"].is_string(), "{node}");
    }
    assert_eq!(pull.next().await.unwrap_err().code(), Code::Unavailable, "the stream is over");
    let refused = host.pull(&[], 1).await.next().await.unwrap_err();
    assert!([Code::PermissionDenied, Code::Unavailable].contains(&refused.code()), "{refused}");
    let (status, problem) = plane.submit(request("node-a")).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
    assert!(problem.to_string().contains("node `node-a` is revoked"), "{problem}");
    assert_eq!(plane.get("/api/v1/nodes?status=revoked").await["items"][0]["name"], "node-a");
}

#[tokio::test]
async fn nodes_are_not_served_where_people_are() {
    let plane = plane().await;
    for token in [&plane.admin, &plane.join_token(1).await] {
        let (status, _) = plane.call(token, Method::POST, "/fettle.node.v1.NodeProtocol/Register", None).await;
        assert_eq!(status, StatusCode::NOT_FOUND);
    }
}
