//! A node that means harm.

use std::time::{Duration, Instant};

use fettle_wire::node::{
    AckRequest, CompleteRequest, ExtendRequest, FailRequest, HeartbeatRequest, PullHello, PullRequest, RegisterRequest,
    RenewRequest, ReportRequest, pull_request,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, body::Body, codegen::http};
use tower::ServiceExt as _;

use crate::{
    Ground, PATIENCE, code, facts,
    member::{Member, connection},
};

const TASK: &str = "01K00000000000000000000001";

/// The first thing that a stream says.
async fn said<T>(answer: Result<tonic::Response<tonic::Streaming<T>>, Status>) -> Result<(), Status> {
    answer?.into_inner().message().await.map(drop)
}

async fn pull(member: &Member, ground: &Ground, node_id: &str) -> Result<(), Status> {
    let (sender, receiver) = mpsc::channel(1);
    let hello =
        PullHello { node_id: node_id.to_owned(), free_slots: 1, challenge: vec![7; 32], ..PullHello::default() };
    sender.send(PullRequest { request: Some(pull_request::Request::Hello(hello)) }).await.unwrap();
    said(member.client(ground.plane.node_address()).pull(ReceiverStream::new(receiver)).await).await
}

async fn report(member: &Member, ground: &Ground, node_id: &str) -> Result<(), Status> {
    let (sender, receiver) = mpsc::channel(1);
    let event = r#"{"type":"progress","step_id":"a","percent":1}"#.to_owned();
    let report = ReportRequest {
        node_id: node_id.to_owned(),
        task_id: TASK.to_owned(),
        epoch: 1,
        sequence: 1,
        event,
        traceparent: String::new(),
    };
    sender.send(report).await.unwrap();
    said(member.client(ground.plane.node_address()).report(ReceiverStream::new(receiver)).await).await
}

#[tokio::test]
async fn a_node_speaks_for_no_other_in_any_call() {
    let ground = Ground::new().await;
    let (own, other) = (ground.member("node-a").await, ground.member("node-b").await);
    let mut client = own.client(ground.plane.node_address());
    let (node_id, task_id) = (other.node_id.clone(), TASK.to_owned());
    let request = own.key.request().unwrap();
    let beat = HeartbeatRequest { node_id: node_id.clone(), clock_milliseconds: 0 };
    let register = RegisterRequest { node_id: node_id.clone(), ..facts("node-b") };
    let renew = RenewRequest { node_id: node_id.clone(), certificate_request: request };
    let ack = AckRequest { node_id: node_id.clone(), task_id: task_id.clone(), epoch: 1 };
    let extend = ExtendRequest { node_id: node_id.clone(), task_id: task_id.clone(), epoch: 1 };
    let complete = CompleteRequest { node_id: node_id.clone(), task_id: task_id.clone(), epoch: 1, canceled: false };
    let failure = r#"{"class":"permanent","code":"x.y","message":"z"}"#.to_owned();
    let fail = FailRequest { node_id: node_id.clone(), task_id, epoch: 1, failure, step_id: String::new() };
    let refused = [
        ("heartbeat", client.heartbeat(beat).await.map(drop)),
        ("register", client.register(register).await.map(drop)),
        ("renew", client.renew(renew).await.map(drop)),
        ("ack", client.ack(ack).await.map(drop)),
        ("extend", client.extend(extend).await.map(drop)),
        ("complete", client.complete(complete).await.map(drop)),
        ("fail", client.fail(fail).await.map(drop)),
        ("pull", pull(&own, &ground, &node_id).await),
        ("report", report(&own, &ground, &node_id).await),
    ];
    for (call, answer) in refused {
        let refused = answer.expect_err(call);
        assert_eq!((refused.code(), code(&refused).as_str()), (Code::PermissionDenied, "node.other_node"), "{call}");
    }
    ground.is_audited("node.other_node").await;
}

#[tokio::test]
async fn a_revoked_node_loses_its_stream_within_five_seconds_and_every_call() {
    let ground = Ground::new().await;
    let member = ground.member("node-a").await;
    let (sender, receiver) = mpsc::channel(1);
    let hello =
        PullHello { node_id: member.node_id.clone(), free_slots: 1, challenge: vec![7; 32], ..PullHello::default() };
    sender.send(PullRequest { request: Some(pull_request::Request::Hello(hello)) }).await.unwrap();
    let mut client = member.client(ground.plane.node_address());
    let mut leases = client.pull(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    let beat = HeartbeatRequest { node_id: member.node_id.clone(), clock_milliseconds: 0 };
    client.heartbeat(beat.clone()).await.unwrap();

    let url = format!("http://{}/api/v1/nodes/node-a/revoke", ground.plane.http_address());
    let begun = Instant::now();
    let revoked = reqwest::Client::new().post(url).bearer_auth(&ground.admin).send().await.unwrap();
    assert_eq!(revoked.json::<serde_json::Value>().await.unwrap()["status"], "revoked");
    let ended = tokio::time::timeout(PATIENCE, leases.message()).await.unwrap();
    assert!(ended.is_err(), "{ended:?}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let refused = loop {
        match client.heartbeat(beat.clone()).await {
            Ok(_) => assert!(begun.elapsed() < Duration::from_secs(5), "a revoked node is still heard"),
            Err(refused) => break refused,
        }
    };
    assert_eq!((refused.code(), code(&refused).as_str()), (Code::PermissionDenied, "node.revoked"));
    let mut again = member.client(ground.plane.node_address());
    assert_eq!(code(&again.heartbeat(beat).await.unwrap_err()), "node.revoked");
    assert_eq!(code(&pull(&member, &ground, &member.node_id).await.unwrap_err()), "node.revoked");
    ground.is_audited("node.revoked").await;
}

#[tokio::test]
async fn the_key_of_one_node_makes_no_other() {
    let ground = Ground::new().await;
    let (own, other) = (ground.member("node-a").await, ground.member("node-b").await);
    let request = other.key.request().unwrap();
    let renew = RenewRequest { node_id: own.node_id.clone(), certificate_request: request };
    let refused = own.client(ground.plane.node_address()).renew(renew).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert!(refused.message().contains("another node has this key"), "{refused}");
}

#[tokio::test]
async fn a_thousand_renewals_are_a_thousand_certificates_and_no_call_fails() {
    let ground = Ground::new().await;
    let mut member = ground.member("node-a").await;
    let plane = ground.plane.node_address();
    let mut serials = std::collections::BTreeSet::new();
    for _ in 0..1000 {
        let mut client = member.client(plane);
        let beat = HeartbeatRequest { node_id: member.node_id.clone(), clock_milliseconds: 0 };
        client.heartbeat(beat).await.unwrap();
        let key = fettle_identity::Key::generate().unwrap();
        let renew = RenewRequest { node_id: member.node_id.clone(), certificate_request: key.request().unwrap() };
        let given = client.renew(renew).await.unwrap().into_inner().credentials.unwrap();
        member = Member::given(member.node_id.clone(), key, given);
        serials.insert(fettle_identity::Peer::read(&member.certificate).unwrap().serial);
    }
    assert_eq!(serials.len(), 1000);
}

#[tokio::test]
async fn a_question_that_comes_late_does_not_take_the_place_of_the_certificate_that_the_node_has() {
    let ground = Ground::new().await;
    let first = ground.member("node-a").await;
    let plane = ground.plane.node_address();
    let renewed = async |by: &Member| {
        let key = fettle_identity::Key::generate().unwrap();
        let renew = RenewRequest { node_id: by.node_id.clone(), certificate_request: key.request().unwrap() };
        let answer = by.client(plane).renew(renew).await?.into_inner();
        Ok::<_, Status>(Member::given(by.node_id.clone(), key, answer.credentials.unwrap()))
    };
    let beat = async |member: &Member| {
        let beat = HeartbeatRequest { node_id: member.node_id.clone(), clock_milliseconds: 0 };
        member.client(plane).heartbeat(beat).await.map(drop)
    };
    // Nobody has heard the answer: whoever asked may ask again.
    drop(renewed(&first).await.unwrap());
    let second = renewed(&first).await.unwrap();
    beat(&second).await.unwrap();
    let late = renewed(&first).await.err().unwrap();
    assert_eq!((late.code(), code(&late).as_str()), (Code::Unauthenticated, "node.certificate_outdated"));
    beat(&second).await.unwrap();
    // What was under way with the older one goes on.
    beat(&first).await.unwrap();
    assert!(renewed(&second).await.is_ok());
    ground.is_audited("node.certificate_outdated").await;
}

/// A node that was taken over wants credentials that are not for it. What a lease, a step and a scope have to do with it is
/// in `plane/tests/it/credentials.rs`.
#[tokio::test]
async fn a_node_has_no_credential_minted_in_another_nodes_name_or_for_a_task_that_it_does_not_hold() {
    let ground = Ground::new().await;
    let (own, other) = (ground.member("node-a").await, ground.member("node-b").await);
    let question = serde_json::json!({
        "epoch": 1, "operation_id": TASK, "step_id": "token", "credential_type": "hf_token", "scope": "meta/llama",
    });
    let ask = async |node_id: &str| {
        let request = http::Request::builder()
            .method(http::Method::POST)
            .uri(fettle_wire::credential::mint_path(node_id, TASK))
            .header("content-type", "application/json")
            .body(Body::new(question.to_string()))
            .unwrap();
        let channel = connection(ground.plane.node_address(), own.config());
        let response = channel.oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(axum::body::Body::new(response.into_body()), 1 << 16).await.unwrap();
        let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
        (status, problem["code"].as_str().unwrap().to_owned())
    };
    assert_eq!(ask(&other.node_id).await, (403, "node.other_node".to_owned()));
    assert_eq!(ask(&own.node_id).await, (409, "lease.stale".to_owned()));
    for code in ["node.other_node", "lease.stale"] {
        ground.is_audited(code).await;
    }
}
