//! A plane with something of everything in it.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{
    TestPlane,
    host::{FakeHost, started},
    shelf::noop,
};

/// The plane, and what is in it.
pub(crate) struct World {
    pub(crate) plane: TestPlane,
    definitions: Vec<Value>,
    finished: String,
    failed: String,
    queued: String,
    canceled: String,
    /// With a step of which nobody knows whether it happened.
    doubtful: Vec<String>,
    webhooks: Vec<String>,
    node: String,
    /// A node that nothing runs on.
    spare: String,
}

/// `model.artifact.stage` at a version: the steps of `test.noop`.
fn definition(version: &str) -> Value {
    let mut definition = noop();
    definition["operation_type"] = json!("model.artifact.stage");
    definition["version"] = json!(version);
    definition["input_schema"] = json!({
        "type": "object",
        "properties": { "name": { "type": "string", "minLength": 1 } },
    });
    definition
}

impl World {
    pub(crate) async fn make(plane: TestPlane) -> Self {
        let mut definitions = Vec::new();
        for (version, draft) in
            [("v1", false), ("v2", false), ("v3", true), ("v4", false), ("v5", false), ("v6", false), ("v7", true)]
        {
            let mut body = plane.shelf.publish_definition(&definition(version));
            body["draft"] = json!(draft);
            definitions.push(create(&plane, Method::POST, "/api/v1/admin/operation-definitions", body).await);
        }
        let mut other = definition("v1");
        other["operation_type"] = json!("gpu.host.bootstrap");
        let other = plane.shelf.publish_definition(&other);
        create(&plane, Method::POST, "/api/v1/admin/operation-definitions", other).await;
        for (version, verb) in [("v2", "deprecate"), ("v4", "retire")] {
            let path = format!("/api/v1/admin/operation-definitions/model.artifact.stage@{version}/{verb}");
            create(&plane, Method::POST, &path, json!({})).await;
        }
        let mut host = plane.host("gpu-17", 8).await;
        let node = host.id.clone();
        let spare = plane.host("gpu-99", 1).await.id;
        for path in ["/api/v1/projects/demo/node-groups/canary", "/api/v1/projects/demo/allocations/a-7"] {
            create(&plane, Method::PUT, path, json!({ "nodes": ["gpu-17"] })).await;
        }
        for scope in ["admin", "tenants/default", "projects/demo"] {
            let path = format!("/api/v1/{scope}/operation-policies/gpu.host.bootstrap");
            let request = plane.http.put(plane.url(&path)).bearer_auth(&plane.admin).header("if-none-match", "*");
            let answer = request.json(&json!({ "timeout_seconds": 3600 })).send().await.unwrap();
            assert_eq!(answer.status(), StatusCode::CREATED);
        }
        let finished = submit(&plane, "v1").await;
        execute(&mut host, false).await;
        let failed = submit(&plane, "v1").await;
        execute(&mut host, true).await;
        let mut doubtful = Vec::new();
        for _ in 0..8 {
            doubtful.push(submit(&plane, "v1").await);
            leave_in_question(&mut host).await;
        }
        let queued = submit(&plane, "v2").await;
        let canceled = submit(&plane, "v1").await;
        let path = format!("/api/v1/projects/demo/operations/{canceled}/cancel");
        create(&plane, Method::POST, &path, json!({})).await;
        let webhooks = webhooks(&plane).await;
        Self { plane, definitions, finished, failed, queued, canceled, doubtful, webhooks, node, spare }
    }

    /// What stands in the configuration, and what it is here.
    pub(crate) fn names(&self) -> Vec<(&'static str, String)> {
        let id = |index: usize| self.definitions[index]["id"].as_str().unwrap().to_owned();
        let source = |name: &str| self.definitions[0]["sources"][name].as_str().unwrap().to_owned();
        vec![
            ("@FINISHED@", self.finished.clone()),
            ("@FAILED@", self.failed.clone()),
            ("@QUEUED@", self.queued.clone()),
            ("@CANCELED@", self.canceled.clone()),
            ("@PROBED@", self.doubtful[..4].join("\", \"")),
            ("@DECIDED@", self.doubtful[4..].join("\", \"")),
            ("@WEBHOOKS@", self.webhooks[2..].join("\", \"")),
            ("@PROJECTS_WEBHOOK@", self.webhooks[0].clone()),
            ("@TENANTS_WEBHOOK@", self.webhooks[1].clone()),
            ("@NODE@", self.node.clone()),
            ("@SPARE@", self.spare.clone()),
            ("@DEFINITION@", id(0)),
            ("@DRAFT@", id(2)),
            ("@OTHER_DRAFT@", id(6)),
            ("@DRAFTED@", self.definitions[6]["sources"]["definition"].as_str().unwrap().to_owned()),
            ("@SPENT@", id(5)),
            ("@SIGNED@", source("definition")),
            (
                "@NEW@",
                self.plane.shelf.publish_definition(&definition("v9"))["definition"].as_str().unwrap().to_owned(),
            ),
            ("@CATALOG@", source("catalog")),
            ("@POLICY@", source("policy")),
        ]
    }
}

async fn create(plane: &TestPlane, method: Method, path: &str, body: Value) -> Value {
    let (status, answer) = plane.call(&plane.admin, method, path, Some(body)).await;
    assert!(status.is_success(), "{path}: {answer}");
    answer
}

async fn submit(plane: &TestPlane, version: &str) -> String {
    let body = json!({
        "operation_type": "model.artifact.stage",
        "version": version,
        "inputs": { "name": "llama" },
        "target_selector": { "node": "gpu-17" },
    });
    let answer = create(plane, Method::POST, "/api/v1/projects/demo/operations", body).await;
    answer["operation_id"].as_str().unwrap().to_owned()
}

/// Paused: nobody listens at their address.
async fn webhooks(plane: &TestPlane) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..6 {
        for scope in ["projects/demo", "tenants/default"] {
            let body = json!({ "url": "https://hooks.example/fettle", "state": "paused" });
            let webhook = create(plane, Method::POST, &format!("/api/v1/{scope}/webhooks"), body).await;
            ids.push(webhook["webhook_id"].as_str().unwrap().to_owned());
        }
    }
    ids
}

/// Fails at the task that waits without saying whether its first step happened.
async fn leave_in_question(host: &mut FakeHost) {
    let mut pull = host.pull(&[], 1).await;
    let lease = pull.lease().await;
    host.ack(&lease).await.unwrap();
    let mut reports = host.reports().await;
    reports.say(&lease, 1, &started("first", 1)).await;
    let failure = json!({ "class": "unknown", "code": "step.interrupted", "message": "nobody saw how it ended" });
    host.fail(&lease, failure, "first").await.unwrap();
}

/// Does the task that waits, or fails at it.
async fn execute(host: &mut FakeHost, fail: bool) {
    let mut pull = host.pull(&[], 1).await;
    let lease = pull.lease().await;
    if !fail {
        return host.execute(&lease).await;
    }
    host.ack(&lease).await.unwrap();
    let mut reports = host.reports().await;
    reports.say(&lease, 1, &started("first", 1)).await;
    let failure = json!({ "class": "permanent", "code": "disk.full", "message": "the disk is full" });
    host.fail(&lease, failure, "first").await.unwrap();
}
