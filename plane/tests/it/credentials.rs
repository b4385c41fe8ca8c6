//! Who is given which credential: what a node asks for that it should not have is refused with a reason of its own, counted
//! and written down.

use std::path::PathBuf;

use axum::body::Bytes;
use fettle_credentials::{Purpose, SealingKey};
use fettle_identity::tls;
use fettle_supply::ArtifactKind;
use fettle_wire::{
    credential::{mint_path, registry_path},
    node::Lease,
};
use http_body_util::{BodyExt as _, Full};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_rustls::rustls::ClientConfig;
use tonic::{body::Body, codegen::http};
use tower::ServiceExt as _;

use crate::support::{
    TestPlane,
    host::{FakeHost, Pull},
    member, plane_with, within,
};

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const SECRET: &str = "hf_s3cret";

/// Two operations: the step `token` of one may have a token of Hugging Face, and pull models; that of the other nothing.
fn definition(operation_type: &str, grants: &Value) -> Value {
    json!({
        "operation_type": operation_type, "version": "v1", "summary": "mints", "backend_type": "node_agent",
        "input_schema": { "type": "object" },
        "artifact_constraints": { "allowed_repositories": ["models/*"] },
        "steps": [
            { "id": "token", "uses": "test.mint@v1", "reusable": false, "grants": grants },
            { "id": "other", "uses": "test.noop@v1" },
        ],
    })
}

fn documents(directory: &std::path::Path) -> (PathBuf, PathBuf) {
    let (document, key) = (directory.join("credentials.yaml"), directory.join("secret.key"));
    SealingKey::generate(&key).unwrap();
    let sealed = SealingKey::load(&key).unwrap().seal(Purpose::Document, SECRET).unwrap();
    let text =
        format!("providers:\n  - {{ type: hf_token, scope: 'meta/*', from: {{ fixed: {{ token: {sealed} }} }} }}\n");
    std::fs::write(&document, text).unwrap();
    (document, key)
}

/// A plane that gives tokens, and two nodes, each with a task.
struct World {
    plane: TestPlane,
    own: FakeHost,
    other: FakeHost,
    lease: Lease,
    others_lease: Lease,
    operation_id: String,
    _streams: [Pull; 2],
    _directory: TempDir,
}

impl World {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (document, key) = documents(directory.path());
        let plane = plane_with(|config| {
            config.credentials = Some(document);
            config.secret_key = Some(key);
        })
        .await;
        let rules = json!([
            { "type": "hf_token", "scope": "meta/*" }, { "type": "hf_token", "scope": "nobody/*" },
            { "type": "oci_pull", "scope": "r:1/*" },
        ]);
        let grants = json!({ "credentials": { "mint": rules } });
        register(&plane, &definition("test.minting", &grants)).await;
        let (mut own, mut other) = (plane.host("node-a", 1).await, plane.host("node-b", 1).await);
        let operation_id = submitted(&plane, "node-a").await;
        submitted(&plane, "node-b").await;
        let mut streams = [own.pull(&[], 1).await, other.pull(&[], 1).await];
        let lease = within(streams[0].lease()).await;
        let others_lease = within(streams[1].lease()).await;
        own.ack(&lease).await.unwrap();
        other.ack(&others_lease).await.unwrap();
        Self { plane, own, other, lease, others_lease, operation_id, _streams: streams, _directory: directory }
    }

    fn question(&self) -> Value {
        json!({
            "epoch": self.lease.epoch, "operation_id": self.operation_id, "step_id": "token",
            "credential_type": "hf_token", "scope": "meta/llama",
        })
    }

    /// The same question with other fields.
    fn with(&self, changes: Value) -> Value {
        let mut question = self.question();
        for (field, value) in changes.as_object().unwrap() {
            question[field] = value.clone();
        }
        question
    }

    async fn ask(&self, host: &FakeHost, path: &str, question: &Value) -> (StatusCode, Value) {
        self.ask_over(host.member.config(), path, question).await
    }

    async fn ask_over(&self, config: ClientConfig, path: &str, question: &Value) -> (StatusCode, Value) {
        let request = http::Request::builder()
            .method(http::Method::POST)
            .uri(path)
            .header("content-type", "application/json")
            .body(Body::new(Full::new(Bytes::from(question.to_string()))))
            .unwrap();
        let channel = member::connection(self.plane.running.node_address(), config);
        let response = channel.oneshot(request).await.unwrap();
        let status = StatusCode::from_u16(response.status().as_u16()).unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Where credentials of the node's own task are minted.
    fn path(&self) -> String {
        mint_path(&self.own.id, &self.lease.task_id)
    }

    /// Audit rows of credentials: what came of each.
    async fn audited(&self) -> Vec<String> {
        let administration = self.plane.administration().await;
        let rows = administration.audit(None).await.unwrap();
        administration.close().await;
        let text = format!("{rows:?}");
        assert!(!text.contains(SECRET), "{text}");
        rows.into_iter().filter(|row| row.action == "credential.mint").map(|row| row.result).collect()
    }
}

async fn register(plane: &TestPlane, definition: &Value) {
    let descriptor = json!({
        "kind": "test.mint@v1", "summary": "mints.", "effect": "observe", "input_schema": { "type": "object" },
        "output_schema": { "type": "object" }, "probes": false, "requests": { "credentials": "it is a test" },
    });
    let mint = plane.shelf.publish(ArtifactKind::Step, &json!("test.mint@v1"), Some(descriptor));
    let catalog =
        json!({ "steps": { "test.mint@v1": mint, "test.noop@v1": plane.shelf.publish_step("test.noop@v1") } });
    let ceiling = json!({ "credentials": { "mint": [{ "type": "hf_token", "scope": "*" }, { "type": "oci_pull", "scope": "*" }] } });
    let body = json!({
        "definition": plane.shelf.publish(ArtifactKind::Definition, definition, None),
        "catalog": plane.shelf.publish(ArtifactKind::Catalog, &catalog, None),
        "policy": plane.shelf.publish(ArtifactKind::PolicyBundle, &json!({ "revision": 1, "ceiling": ceiling }), None),
    });
    let path = "/api/v1/admin/operation-definitions";
    let (status, body) = plane.call(&plane.admin, Method::POST, path, Some(body)).await;
    assert_eq!(status, StatusCode::CREATED, "{body:#}");
}

async fn submitted(plane: &TestPlane, node: &str) -> String {
    let body = json!({
        "operation_type": "test.minting", "version": "v1", "inputs": {}, "target_selector": { "node": node },
    });
    let (status, body) = plane.submit(body).await;
    assert_eq!(status, StatusCode::CREATED, "{body:#}");
    body["operation_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_step_is_given_what_was_signed_for_it_and_that_is_written_down() {
    let world = World::new().await;
    let (status, given) = world.ask(&world.own, &world.path(), &world.question()).await;
    assert_eq!(status, StatusCode::OK, "{given:#}");
    assert_eq!((&given["material"], &given["expires_in_seconds"]), (&json!({ "token": SECRET }), &json!(300)));
    assert_eq!(world.audited().await, ["ok"]);
}

#[tokio::test]
async fn whatever_a_node_should_not_have_is_refused_with_a_reason_of_its_own() {
    let world = World::new().await;
    let (own, other) = (&world.own, &world.other);
    let (mine, others) = (world.path(), mint_path(&own.id, &world.others_lease.task_id));
    let for_other = mint_path(&other.id, &world.others_lease.task_id);
    let model = format!("r:1/secrets/a@{DIGEST}");
    let other_operation = world.others_lease.task_id.clone();
    let attacks: Vec<(&FakeHost, &str, Value, u16, &str)> = vec![
        (own, &for_other, world.question(), 403, "node.other_node"),
        (own, &others, world.question(), 409, "lease.stale"),
        (own, &mine, world.with(json!({ "epoch": 77 })), 409, "lease.stale"),
        (own, &mine, world.with(json!({ "operation_id": other_operation })), 403, "credential.other_operation"),
        (own, &mine, world.with(json!({ "step_id": "nobody" })), 403, "credential.unknown_step"),
        (own, &mine, world.with(json!({ "step_id": "other" })), 403, "credential.not_granted"),
        (own, &mine, world.with(json!({ "scope": "openai/gpt" })), 403, "credential.not_granted"),
        (
            own,
            &mine,
            world.with(json!({ "credential_type": "cluster_join_token", "scope": "a" })),
            403,
            "credential.not_granted",
        ),
        (own, &mine, world.with(json!({ "scope": "../etc" })), 422, "credential.scope"),
        (own, &mine, world.with(json!({ "credential_type": "ssh_key" })), 422, "request.invalid"),
        (own, &mine, world.with(json!({ "more": 1 })), 422, "request.invalid"),
        (
            own,
            &mine,
            world.with(json!({ "credential_type": "oci_pull", "scope": model })),
            403,
            "credential.outside_constraints",
        ),
        (own, &mine, world.with(json!({ "scope": "nobody/model" })), 403, "credential.no_provider"),
    ];
    for (host, path, question, status, code) in attacks {
        let (answered, problem) = world.ask(host, path, &question).await;
        assert_eq!(
            (answered.as_u16(), problem["code"].as_str()),
            (status, Some(code)),
            "{path} {question}: {problem:#}"
        );
        assert!(!problem["detail"].as_str().unwrap().is_empty() && !problem.to_string().contains(SECRET));
    }
    let audited = world.audited().await;
    for code in ["lease.stale", "credential.other_operation", "credential.unknown_step", "credential.not_granted"] {
        assert!(audited.iter().any(|result| result == code), "{code} is not in {audited:?}");
    }
    // What it may have, it still gets.
    assert_eq!(world.ask(own, &mine, &world.question()).await.0, StatusCode::OK);
}

#[tokio::test]
async fn whoever_shows_no_certificate_is_given_nothing() {
    let world = World::new().await;
    let stranger = tls::client(&world.own.member.authorities, None).unwrap();
    let (status, problem) = world.ask_over(stranger, &world.path(), &world.question()).await;
    assert_eq!((status.as_u16(), &problem["code"]), (401, &json!("node.certificate_missing")));
    assert!(world.audited().await.is_empty());
}

#[tokio::test]
async fn the_other_endpoint_gives_tokens_of_registries_by_the_same_rules() {
    let world = World::new().await;
    let path = registry_path(&world.own.id, &world.lease.task_id);
    let question = |reference: String, step: &str| json!({ "epoch": world.lease.epoch, "operation_id": world.operation_id, "step_id": step, "reference": reference });
    for (reference, step, code) in [
        (format!("r:1/models/a@{DIGEST}"), "other", "credential.not_granted"),
        (format!("r:2/models/a@{DIGEST}"), "token", "credential.not_granted"),
        (format!("r:1/secrets/a@{DIGEST}"), "token", "credential.outside_constraints"),
        ("r:1/models/a:latest".to_owned(), "token", "credential.scope"),
        // Nobody here gives tokens of registries.
        (format!("r:1/models/a@{DIGEST}"), "token", "credential.no_provider"),
    ] {
        let (_, problem) = world.ask(&world.own, &path, &question(reference, step)).await;
        assert_eq!(problem["code"], code, "{problem:#}");
    }
}

#[tokio::test]
async fn a_node_that_asks_without_end_is_stopped_and_the_others_are_not() {
    let world = World::new().await;
    let config = world.own.member.config();
    let (mut given, mut stopped) = (0, 0);
    for _ in 0..260 {
        let (status, problem) = world.ask_over(config.clone(), &world.path(), &world.question()).await;
        match status.as_u16() {
            200 => given += 1,
            429 => {
                assert_eq!(problem["code"], "credential.too_many");
                stopped += 1;
            }
            other => panic!("{other}: {problem:#}"),
        }
    }
    assert!(given >= 240 && stopped > 0, "{given} given, {stopped} stopped");
    let operation = world.others_lease.task_id.clone();
    let path = mint_path(&world.other.id, &operation);
    let (_, answer) = world.ask(&world.other, &path, &world.with(json!({ "epoch": world.others_lease.epoch }))).await;
    assert_eq!(answer["code"], "credential.other_operation", "the other node is listened to: {answer:#}");
}
