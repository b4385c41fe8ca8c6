//! Overlays of platform, tenant and project: kept, changed, and obeyed.

use fettle_plane::administration::{Access, ProjectRole};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{Answer, TestPlane, host::task, in_project, plane, plane_with, pointers, request, shelf::noop};

const GLOBAL: &str = "/api/v1/admin/operation-policies/test.noop";
const TENANT: &str = "/api/v1/tenants/default/operation-policies/test.noop";
const PROJECT: &str = "/api/v1/projects/demo/operation-policies/test.noop";
const EXPLAIN: &str = "/api/v1/projects/demo/operation-policies/explain";

impl TestPlane {
    /// Sends a request with headers; answers its ETag too.
    async fn conditional(
        &self,
        token: &str,
        method: Method,
        path: &str,
        header: Option<(&str, &str)>,
        body: Option<Value>,
    ) -> (StatusCode, Value, Option<String>) {
        let mut request = self.http.request(method, self.url(path)).bearer_auth(token);
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap();
        let (status, etag) = (response.status(), response.headers().get("etag").cloned());
        let etag = etag.map(|etag| etag.to_str().unwrap().to_owned());
        (status, response.json().await.unwrap_or(Value::Null), etag)
    }

    /// Writes an overlay that was not there.
    async fn says(&self, path: &str, overlay: Value) {
        let new = Some(("if-none-match", "*"));
        let (status, body, _) = self.conditional(&self.admin, Method::PUT, path, new, Some(overlay)).await;
        assert_eq!(status, StatusCode::CREATED, "{body}");
    }

    async fn explained(&self, body: Value) -> Value {
        let (status, body) = self.call(&self.member, Method::POST, EXPLAIN, Some(body)).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        body
    }
}

fn denied_by((status, problem): &Answer, pointer: &str) {
    assert_eq!((*status, &problem["code"]), (StatusCode::FORBIDDEN, &json!("policy.denied")), "{problem}");
    assert_eq!(pointers(problem), [pointer], "{problem}");
}

#[tokio::test]
async fn an_overlay_is_written_as_it_was_read_or_not_at_all() {
    let plane = plane().await;
    for path in [GLOBAL, TENANT, PROJECT] {
        let put = |header, body| plane.conditional(&plane.admin, Method::PUT, path, header, Some(body));
        let (status, problem, _) = put(None, json!({})).await;
        assert_eq!((status, &problem["code"]), (StatusCode::PRECONDITION_REQUIRED, &json!("policy.unconditional")));
        let (status, written, etag) = put(Some(("if-none-match", "*")), json!({ "max_concurrency": 3 })).await;
        assert_eq!((status, &written["revision"]), (StatusCode::CREATED, &json!(1)), "{written}");
        let etag = etag.unwrap();
        let (_, shown, shown_etag) = plane.conditional(&plane.admin, Method::GET, path, None, None).await;
        assert_eq!((shown_etag.as_ref(), &shown["policy"]), (Some(&etag), &json!({ "max_concurrency": 3 })));
        for late in [("if-none-match", "*"), ("if-match", "\"9-0000000000000000\"")] {
            let (status, problem, _) = put(Some(late), json!({})).await;
            assert_eq!((status, &problem["code"]), (StatusCode::PRECONDITION_FAILED, &json!("policy.changed")));
        }
        let (status, written, next) = put(Some(("if-match", &etag)), json!({ "enabled": true })).await;
        assert_eq!((status, &written["revision"]), (StatusCode::OK, &json!(2)));
        let listed = plane.call(&plane.admin, Method::GET, path.rsplit_once('/').unwrap().0, None).await.1;
        assert_eq!(listed["items"][0]["etag"], json!(next));
        let delete = |header| plane.conditional(&plane.admin, Method::DELETE, path, header, None);
        assert_eq!(delete(None).await.0, StatusCode::PRECONDITION_REQUIRED);
        assert_eq!(delete(Some(("if-match", &etag))).await.0, StatusCode::PRECONDITION_FAILED);
        assert_eq!(delete(Some(("if-match", "*"))).await.0, StatusCode::NO_CONTENT);
        let (status, shown) = plane.call(&plane.admin, Method::GET, path, None).await;
        if path == PROJECT {
            assert_eq!((status, &shown["policy"]), (StatusCode::OK, &Value::Null), "{shown}");
        } else {
            assert_eq!((status, &shown["code"]), (StatusCode::NOT_FOUND, &json!("policy.unknown")));
        }
    }
}

#[tokio::test]
async fn overlays_are_listed_in_pages() {
    let plane = plane().await;
    for list in [
        "/api/v1/admin/operation-policies",
        "/api/v1/tenants/default/operation-policies",
        "/api/v1/projects/demo/operation-policies",
    ] {
        for name in ["c", "a", "b"] {
            plane.says(&format!("{list}/{name}"), json!({ "enabled": true })).await;
        }
        let names = |page: &Value| {
            let items = page["items"].as_array().unwrap().iter();
            items.map(|item| item["operation_type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let (_, first) = plane.call(&plane.admin, Method::GET, &format!("{list}?page_size=2"), None).await;
        assert_eq!(names(&first), ["a", "b"], "{first}");
        let cursor = first["next_cursor"].as_str().unwrap();
        let next = format!("{list}?page_size=2&cursor={cursor}");
        let (_, rest) = plane.call(&plane.admin, Method::GET, &next, None).await;
        assert_eq!((names(&rest), &rest["next_cursor"]), (vec!["c".to_owned()], &Value::Null));
    }
}

#[tokio::test]
async fn a_mistake_in_an_overlay_is_told_at_its_place() {
    let plane = plane().await;
    for (overlay, pointer) in [
        (json!({ "enable": true }), "/enable"),
        (json!({ "max_concurrency": 0 }), "/max_concurrency"),
        (json!({ "allowed_target_kinds": ["nodes"] }), "/allowed_target_kinds/0"),
        (json!({ "allowed_artifact_sources": ["*"] }), "/allowed_artifact_sources/0"),
        (json!({ "max_artifact_size_bytes": u64::MAX }), "/max_artifact_size_bytes"),
    ] {
        let new = Some(("if-none-match", "*"));
        let (status, problem, _) = plane.conditional(&plane.admin, Method::PUT, GLOBAL, new, Some(overlay)).await;
        assert_eq!((status, pointers(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, vec![pointer]), "{problem}");
    }
    let path = GLOBAL.replace("test.noop", "Test");
    let (status, problem) = plane.call(&plane.admin, Method::GET, &path, None).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
}

#[tokio::test]
async fn tenants_write_for_themselves_and_their_projects_and_nobody_else_does() {
    let plane = plane().await;
    let tenant = plane.token("tenant", Access::TenantAdmin { org_id: "default".parse().unwrap() }).await;
    let admin = plane.token("project-admin", in_project("demo", ProjectRole::Admin)).await;
    let viewer = plane.token("viewer", in_project("demo", ProjectRole::Viewer)).await;
    for (token, path, writes, reads) in [
        (&tenant, GLOBAL, StatusCode::FORBIDDEN, StatusCode::FORBIDDEN),
        (&tenant, TENANT, StatusCode::CREATED, StatusCode::OK),
        (&tenant, PROJECT, StatusCode::CREATED, StatusCode::OK),
        (&admin, GLOBAL, StatusCode::FORBIDDEN, StatusCode::FORBIDDEN),
        (&admin, TENANT, StatusCode::FORBIDDEN, StatusCode::FORBIDDEN),
        (&admin, PROJECT, StatusCode::FORBIDDEN, StatusCode::OK),
        (&viewer, PROJECT, StatusCode::FORBIDDEN, StatusCode::OK),
    ] {
        let new = Some(("if-none-match", "*"));
        let (status, body, _) = plane.conditional(token, Method::PUT, path, new, Some(json!({}))).await;
        assert_eq!(status, writes, "{path}: {body}");
        assert_eq!(plane.call(token, Method::GET, path, None).await.0, reads, "{path}");
    }
    let unknown = TENANT.replace("default", "nobody");
    assert_eq!(plane.call(&plane.admin, Method::GET, &unknown, None).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_the_platform_denies_nobody_enables() {
    let plane = plane().await;
    plane.with_definition().await;
    plane.host("node-a", 1).await;
    plane.says(GLOBAL, json!({ "enabled": false })).await;
    plane.says(TENANT, json!({ "enabled": true })).await;
    plane.says(PROJECT, json!({ "enabled": true })).await;
    denied_by(&plane.submit(request("node-a")).await, "/operation_type");
    let shown = plane.get(PROJECT).await;
    let enabled = &shown["resolved"]["keys"][0];
    assert_eq!((&enabled["key"], &enabled["value"]), (&json!("enabled"), &json!(false)), "{shown}");
    assert_eq!(enabled["decided_by"], json!(["global"]));
    let told = json!({ "level": "project", "value": true, "why": "hard_denied" });
    assert!(enabled["lost"].as_array().unwrap().contains(&told), "{enabled}");
    assert_eq!(plane.get("/api/v1/projects/demo/operations").await["items"], json!([]));
}

#[tokio::test]
async fn a_tenant_denies_and_a_project_of_it_is_excepted() {
    let plane = plane().await;
    plane.with_definition().await;
    plane.host("node-a", 1).await;
    plane.says(TENANT, json!({ "enabled": false })).await;
    denied_by(&plane.submit(request("node-a")).await, "/operation_type");
    plane.says(PROJECT, json!({ "enabled": true })).await;
    assert_eq!(plane.submit(request("node-a")).await.0, StatusCode::CREATED);
}

#[tokio::test]
async fn each_key_is_obeyed_when_an_operation_is_submitted() {
    let plane = plane().await;
    let mut definition = noop();
    definition["artifact_constraints"] = json!({ "allowed_repositories": ["models/*"], "max_size_bytes": 1000 });
    let body = plane.shelf.publish_definition(&definition);
    plane.call(&plane.admin, Method::POST, "/api/v1/admin/operation-definitions", Some(body)).await;
    plane.host("node-a", 1).await;
    let mut body = request("node-a");
    body["inputs"]["name"] = json!(format!("r.internal:5000/models/llama@sha256:{}", "0".repeat(64)));
    for (overlay, pointer) in [
        (json!({ "allowed_target_kinds": ["label"] }), Some("/target_selector/node")),
        (json!({ "allowed_artifact_sources": ["q.internal/*"] }), Some("/inputs/name")),
        (json!({ "require_signature_verification": true }), Some("/version")),
        (json!({ "max_artifact_size_bytes": 999 }), Some("/version")),
        (
            json!({ "enabled": true, "allowed_target_kinds": ["node"], "max_artifact_size_bytes": 1000,
                "allowed_artifact_sources": ["r.internal:5000/models/*"], "require_signature_verification": false,
                "timeout_seconds": 60, "max_concurrency": 2 }),
            None,
        ),
    ] {
        plane.says(TENANT, overlay.clone()).await;
        let answer = plane.submit(body.clone()).await;
        match pointer {
            Some(pointer) => denied_by(&answer, pointer),
            None => assert_eq!(answer.0, StatusCode::CREATED, "{}", answer.1),
        }
        plane.conditional(&plane.admin, Method::DELETE, TENANT, Some(("if-match", "*")), None).await;
    }
}

#[tokio::test]
async fn what_policy_limits_is_kept_when_tasks_are_handed_out() {
    let plane = plane().await;
    plane.with_definition().await;
    plane.says(GLOBAL, json!({ "max_concurrency": 5 })).await;
    plane.says(TENANT, json!({ "max_concurrency": 1, "timeout_seconds": 600 })).await;
    let mut host = plane.host("node-a", 2).await;
    plane.host("node-b", 1).await;
    let first = plane.submitted("node-a").await;
    assert!(plane.get(&first).await["deadline"].is_string(), "the timeout of policy is the deadline");
    let mut pull = host.pull(&[], 2).await;
    let lease = pull.lease().await;
    host.ack(&lease).await.unwrap();
    let second = plane.submitted("node-b").await;
    let waits = |shown: &Value| {
        let waits = shown["nodes"][0]["waits_for"].as_array().cloned().unwrap_or_default();
        waits
            .iter()
            .filter(|wait| wait["code"] == "operation.concurrency")
            .map(|wait| wait["message"].clone())
            .collect()
    };
    let waiting: Vec<Value> = waits(&plane.get(&second).await);
    assert_eq!(waiting.len(), 1, "the tenant's number alone is reached: {waiting:?}");
}

#[tokio::test]
async fn what_was_denied_since_is_not_run_again() {
    let plane = plane().await;
    plane.with_definition().await;
    let mut host = plane.host("node-a", 1).await;
    let mut pull = host.pull(&[], 1).await;
    let path = plane.submitted("node-a").await;
    let lease = pull.lease().await;
    host.ack(&lease).await.unwrap();
    let failure = json!({ "class": "permanent", "code": "disk.broken", "message": "the disk is broken" });
    host.fail(&lease, failure, "first").await.unwrap();
    plane.says(GLOBAL, json!({ "enabled": false })).await;
    let retry = format!("{path}/retry");
    denied_by(&plane.call(&plane.admin, Method::POST, &retry, None).await, "/operation_type");
    assert_eq!(plane.get(&path).await["run"], 1);
    let trail = plane.administration().await.audit(None).await.unwrap();
    let refused: Vec<_> = trail.iter().filter(|row| row.result == "policy.denied").collect();
    assert!(matches!(refused.as_slice(), [row] if row.action == "operation.retry"), "{refused:?}");
    plane.conditional(&plane.admin, Method::DELETE, GLOBAL, Some(("if-match", "*")), None).await;
    plane.says(TENANT, json!({ "timeout_seconds": 600 })).await;
    let (status, shown) = plane.call(&plane.admin, Method::POST, &retry, None).await;
    assert_eq!((status, &shown["run"]), (StatusCode::OK, &json!(2)), "{shown}");
    assert!(shown["deadline"].is_string(), "{shown}");
}

#[tokio::test]
async fn a_decision_names_every_rule_and_is_kept() {
    let plane = plane().await;
    plane.with_definition().await;
    plane.host("node-a", 1).await;
    plane.says(GLOBAL, json!({ "timeout_seconds": 60 })).await;
    plane.says(PROJECT, json!({ "timeout_seconds": 90, "max_concurrency": 2 })).await;
    let explained = plane.explained(request("node-a")).await;
    assert_eq!((&explained["allowed"], &explained["effective"]["timeout_seconds"]), (&json!(true), &json!(60)));
    assert_eq!(plane.get("/api/v1/projects/demo/operations").await["items"], json!([]), "nothing is made");
    let operation = plane.submitted("node-a").await;
    let decision = plane.get(&format!("{operation}/decision")).await;
    let overlays: Vec<_> = decision["overlays"].as_array().unwrap().iter().map(|one| &one["scope"]).collect();
    assert_eq!(overlays, ["platform", "default/demo"]);
    let lost = json!([{ "level": "project", "value": 90, "why": "beyond_global" }]);
    let timeout = decision["keys"].as_array().unwrap().iter().find(|one| one["key"] == "timeout_seconds").unwrap();
    assert_eq!((&timeout["decided_by"], &timeout["lost"]), (&json!(["global"]), &lost), "{decision}");
    for field in ["effective", "keys", "overlays", "violations", "operation_type", "version", "project"] {
        assert_eq!(decision[field], explained[field], "{field}");
    }
    // It stays what it was.
    plane.conditional(&plane.admin, Method::DELETE, PROJECT, Some(("if-match", "*")), None).await;
    assert_eq!(plane.get(&format!("{operation}/decision")).await, decision);
}

#[tokio::test]
async fn a_refusal_is_in_the_audit_trail_with_its_decision() {
    let plane = plane().await;
    plane.with_definition().await;
    plane.host("node-a", 1).await;
    plane.says(TENANT, json!({ "enabled": false })).await;
    let explained = plane.explained(request("node-a")).await;
    assert_eq!((&explained["allowed"], &explained["violations"][0]["rule"]), (&json!(false), &json!("enabled")));
    plane.submit(request("node-a")).await;
    let trail = plane.administration().await.audit(None).await.unwrap();
    let refused: Vec<_> = trail.iter().filter(|row| row.result == "policy.denied").collect();
    let [row] = refused.as_slice() else { panic!("one row: {refused:?}") };
    assert_eq!((row.action.as_str(), row.scope.as_str()), ("operation.create", "default/demo"));
    let details = row.details.as_ref().unwrap();
    assert_eq!(details["violations"], explained["violations"]);
    assert_eq!(details["overlays"], explained["overlays"]);
    let written = trail.iter().find(|row| row.action == "tenant_policy.put").unwrap();
    assert_eq!(written.details.as_ref().unwrap()["after"]["policy"], json!({ "enabled": false }));
}

#[tokio::test]
async fn an_organisations_own_rules_are_asked() {
    let policies = tempfile::tempdir().unwrap();
    let text = "package fettle.submit\n\
        deny contains sprintf(\"%s of %s is not for %s\", [op.operation_type, input.project.org_id, node.name]) if {\n\
        some node in input.nodes\nop := input.operation\nop.inputs.count > 3\n\
        node.capabilities[\"gpu.vendor\"] == \"nvidia\"\nendswith(input.requested_by, \":member\")\n}";
    std::fs::write(policies.path().join("own.rego"), text).unwrap();
    let plane = plane_with(|config| config.rego = Some(policies.path().to_owned())).await;
    plane.with_definition().await;
    plane.host("node-a", 1).await;
    let operation = plane.submitted("node-a").await;
    let decision = plane.get(&format!("{operation}/decision")).await;
    assert_eq!((&decision["rego"]["files"][0]["name"], &decision["allowed"]), (&json!("own.rego"), &json!(true)));
    let mut body = request("node-a");
    body["inputs"]["count"] = json!(4);
    let (status, problem) = plane.submit(body).await;
    assert_eq!((status, &problem["code"]), (StatusCode::FORBIDDEN, &json!("policy.denied")), "{problem}");
    let message = problem["violations"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("test.noop of default is not for node-a (rule `fettle.submit.deny`"), "{message}");
}

/// A rule that counts what the node has is asked for each task on its own.
#[tokio::test]
async fn an_organisations_own_rules_hold_a_task_back_until_they_let_it_go() {
    let policies = tempfile::tempdir().unwrap();
    let text = "package fettle.dispatch\n\
        deny contains sprintf(\"%s waits until %s is idle\", [input.operation.operation_type, input.node.name]) if {\n\
        input.operation.inputs.count == 4\ninput.node.running_tasks > 0\nendswith(input.requested_by, \":member\")\n\
        input.at.unix_seconds >= input.accepted_at.unix_seconds\n}";
    std::fs::write(policies.path().join("own.rego"), text).unwrap();
    let plane = plane_with(|config| config.rego = Some(policies.path().to_owned())).await;
    plane.with_definition().await;
    let mut host = plane.host("node-a", 4).await;
    let mut alone = request("node-a");
    alone["inputs"]["count"] = json!(4);
    let mut operations = Vec::new();
    for body in [alone.clone(), alone, request("node-a")] {
        let (status, operation) = plane.submit(body).await;
        assert_eq!(status, StatusCode::CREATED, "{operation}");
        operations.push(format!("/api/v1/projects/demo/operations/{}", operation["operation_id"].as_str().unwrap()));
    }
    let mut pull = host.pull(&[], 4).await;
    let (first, third) = (pull.lease().await, pull.lease().await);
    let held: Vec<String> = [&first, &third].iter().map(|lease| task(lease).operation_id).collect();
    for (operation, is_held) in operations.iter().zip([true, false, true]) {
        assert_eq!(held.iter().any(|id| operation.ends_with(id)), is_held, "{operation}");
    }
    let shown = plane.get(&operations[1]).await;
    let waits = json!([{ "code": "policy.denied", "message": "test.noop waits until node-a is idle" }]);
    let own = shown["nodes"][0]["waits_for"].as_array().unwrap().iter().filter(|wait| wait["code"] != "node.silent");
    assert_eq!(json!(own.collect::<Vec<_>>()), waits, "{shown}");
    host.execute(&first).await;
    host.execute(&third).await;
    pull.free(4).await;
    let second = pull.lease().await;
    assert!(operations[1].ends_with(&task(&second).operation_id));
    let trail = plane.administration().await.audit(None).await.unwrap();
    let refused: Vec<_> = trail.iter().filter(|row| row.result == "policy.denied").collect();
    let [row] = refused.as_slice() else { panic!("held back once, written down once: {refused:?}") };
    assert_eq!((row.action.as_str(), row.scope.as_str()), ("task.lease", "default/demo"));
    let details = row.details.as_ref().unwrap();
    assert_eq!(details["violations"][0]["rule"], "fettle.dispatch.deny");
    assert_eq!(details["rego"]["files"][0]["name"], "own.rego");
}

/// What takes so long that it is denied is not asked about for ever.
#[tokio::test]
async fn a_rule_that_is_slow_for_some_tasks_keeps_those_behind_them_waiting_no_longer_than_it_takes() {
    let policies = tempfile::tempdir().unwrap();
    let text = "package fettle.dispatch\n\
        deny contains \"never\" if {\n input.operation.inputs.count == 4\n\
        count([x | some x in numbers.range(1, 5000); some y in numbers.range(1, 5000); x == y]) == 1\n}";
    std::fs::write(policies.path().join("slow.rego"), text).unwrap();
    let plane = plane_with(|config| config.rego = Some(policies.path().to_owned())).await;
    plane.with_definition().await;
    let mut host = plane.host("node-a", 1).await;
    let mut slow = request("node-a");
    slow["inputs"]["count"] = json!(4);
    for _ in 0..4 {
        assert_eq!(plane.submit(slow.clone()).await.0, StatusCode::CREATED);
    }
    let quick = plane.submitted("node-a").await;
    let mut pull = host.pull(&[], 1).await;
    assert!(quick.ends_with(&task(&pull.lease().await).operation_id));
}

#[tokio::test]
async fn a_token_that_asks_too_often_is_told_when_to_ask_again() {
    let limit = fettle_plane::RateLimit { per_second: 1.try_into().unwrap(), burst: 3.try_into().unwrap() };
    let plane = plane_with(|config| config.rate_limit = Some(limit)).await;
    let ask = |token| plane.http.get(plane.url("/api/v1/nodes")).bearer_auth(token).send();
    let mut statuses = Vec::new();
    for _ in 0..20 {
        let answer = ask(&plane.member).await.unwrap();
        if answer.status() == StatusCode::TOO_MANY_REQUESTS {
            assert_eq!(answer.headers()["retry-after"], "1");
            assert_eq!(answer.json::<Value>().await.unwrap()["code"], "request.too_many");
            statuses.push(StatusCode::TOO_MANY_REQUESTS);
        } else {
            statuses.push(answer.status());
        }
    }
    assert!(statuses[..3].iter().all(|status| *status == StatusCode::OK), "{statuses:?}");
    assert!(statuses.contains(&StatusCode::TOO_MANY_REQUESTS), "{statuses:?}");
    assert_eq!(ask(&plane.admin).await.unwrap().status(), StatusCode::OK, "another token has its own");
    for open in ["/healthz", "/readyz"] {
        for _ in 0..10 {
            assert_eq!(plane.http.get(plane.url(open)).send().await.unwrap().status(), StatusCode::OK);
        }
    }
    plane.host("node-a", 1).await.heartbeat().await.unwrap();
}
