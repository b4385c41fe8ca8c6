//! What a user of one organisation tries against another one, and against the platform, over REST.

use std::{num::NonZeroU32, time::Duration};

use fettle_plane::{
    RateLimit,
    administration::{Access, ProjectRole, project},
};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{Ground, member::Member};

/// Where `mallory` is: a member of the project `attack` of her own organisation. The victim's project is `demo`.
struct Tenant {
    ground: Ground,
    http: reqwest::Client,
    mallory: String,
    viewer: String,
    /// A node of the victim's project.
    node: Member,
}

/// What is sent, with whose token, and what is answered.
struct Attack {
    name: &'static str,
    method: Method,
    path: String,
    body: Option<Value>,
    status: u16,
    code: &'static str,
}

impl Tenant {
    async fn new() -> Self {
        Self::on(Ground::new().await).await
    }

    async fn on(ground: Ground) -> Self {
        let place = |name: &str, org: &str| project(name.parse().unwrap(), Some(org.parse().unwrap())).unwrap();
        let token = async |name: &str, role| {
            let access = Access::Project { project: place("attack", "mallory"), role };
            ground.administration.create_token(name, access, None).await.unwrap().1.reveal().to_owned()
        };
        let (mallory, viewer) =
            (token("mallory", ProjectRole::Member).await, token("viewer", ProjectRole::Viewer).await);
        let hour = Duration::from_secs(3600);
        let join = ground.administration.create_join_token(1, Some(place("demo", "victim")), hour).await.unwrap();
        let node = Member::join(ground.plane.node_address(), join.reveal(), crate::facts("gpu-1")).await.unwrap();
        Self { ground, http: reqwest::Client::new(), mallory, viewer, node }
    }

    async fn send(&self, token: &str, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        let url = format!("http://{}{path}", self.ground.plane.http_address());
        let mut request = self.http.request(method, url);
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap();
        let status = response.status();
        (status, response.json().await.unwrap_or_default())
    }

    async fn holds(&self, token: &str, attacks: Vec<Attack>) {
        for Attack { name, method, path, body, status, code } in attacks {
            let (answered, problem) = self.send(token, method, &path, body).await;
            assert_eq!((answered.as_u16(), problem["code"].as_str()), (status, Some(code)), "{name}: {problem:#}");
        }
    }
}

fn attack(name: &'static str, method: Method, path: impl Into<String>, status: u16, code: &'static str) -> Attack {
    Attack { name, method, path: path.into(), body: None, status, code }
}

/// Asks for an operation on this node.
fn submission(node: &str) -> Value {
    json!({ "operation_type": "test.noop", "version": "v1", "inputs": {}, "target_selector": { "node": node } })
}

#[tokio::test]
async fn what_is_another_organisations_is_not_there() {
    let tenant = Tenant::new().await;
    let foreign = "/api/v1/projects/demo";
    let unknown = "/api/v1/projects/nobody";
    for (name, rest) in [
        ("reads operations", "/operations"),
        ("reads logs", "/operations/01K00000000000000000000001/logs"),
        ("reads groups of nodes", "/node-groups"),
        ("reads policies", "/operation-policies"),
        ("reads webhooks", "/webhooks"),
    ] {
        let attacks =
            [foreign, unknown].map(|base| attack(name, Method::GET, format!("{base}{rest}"), 404, "project.unknown"));
        tenant.holds(&tenant.mallory, attacks.into()).await;
    }
    let own = "/api/v1/projects/attack/operations";
    let submit = |path: &str, node: &str, status, code| Attack {
        body: Some(submission(node)),
        ..attack("submits", Method::POST, path, status, code)
    };
    tenant
        .holds(
            &tenant.mallory,
            vec![
                submit("/api/v1/projects/demo/operations", "gpu-1", 404, "project.unknown"),
                attack("looks at a node", Method::GET, "/api/v1/nodes/gpu-1", 404, "node.unknown"),
                attack("shuts a node out", Method::POST, "/api/v1/nodes/gpu-1/revoke", 404, "node.unknown"),
                attack(
                    "reads a tenant's policies",
                    Method::GET,
                    "/api/v1/tenants/victim/operation-policies",
                    404,
                    "tenant.unknown",
                ),
                attack(
                    "climbs out of its project",
                    Method::GET,
                    "/api/v1/projects/attack%2F..%2Fdemo/operations",
                    404,
                    "project.unknown",
                ),
            ],
        )
        .await;
    // A node of another project is as unknown as one that is not there, whatever it is asked for.
    let [theirs, nobodys] =
        ["gpu-1", "gpu-9"].map(|node| tenant.send(&tenant.mallory, Method::POST, own, Some(submission(node))));
    let ((status, theirs), (_, nobodys)) = (theirs.await, nobodys.await);
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(theirs.to_string().replace("gpu-1", "gpu-9"), nobodys.to_string());
    let (_, listed) = tenant.send(&tenant.mallory, Method::GET, "/api/v1/nodes", None).await;
    assert_eq!(listed["items"], json!([]), "{}", tenant.node.node_id);
}

#[tokio::test]
async fn nobody_does_more_than_their_role_and_what_they_tried_is_written_down() {
    let tenant = Tenant::new().await;
    let definition = json!({ "definition": "r:1/a@sha256:0", "catalog": "r:1/b@sha256:0", "policy": "r:1/c@sha256:0" });
    let post = |name, path: &str, body: &Value| Attack {
        body: Some(body.clone()),
        ..attack(name, Method::POST, path, 403, "access.denied")
    };
    let overlay = Attack {
        body: Some(json!({})),
        ..attack(
            "writes the platform's policy",
            Method::PUT,
            "/api/v1/admin/operation-policies/test.noop",
            403,
            "access.denied",
        )
    };
    tenant
        .holds(
            &tenant.mallory,
            vec![
                post("registers a definition of its own", "/api/v1/admin/operation-definitions", &definition),
                overlay,
                attack(
                    "reads the platform's policies",
                    Method::GET,
                    "/api/v1/admin/operation-policies",
                    403,
                    "access.denied",
                ),
                attack(
                    "reads webhooks of its project",
                    Method::GET,
                    "/api/v1/projects/attack/webhooks",
                    403,
                    "access.denied",
                ),
            ],
        )
        .await;
    let submits = post("submits as a viewer", "/api/v1/projects/attack/operations", &submission("gpu-1"));
    tenant.holds(&tenant.viewer, vec![submits]).await;
    assert!(tenant.ground.audited("access.denied").await >= 3, "the mutations are in the audit trail");
}

#[tokio::test]
async fn nothing_that_only_looks_like_a_token_opens_anything() {
    let tenant = Tenant::new().await;
    let nodes = "/api/v1/nodes";
    // {"alg":"none"}.{"sub":"admin"}.
    let unsigned = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.";
    let (admin, short) = (&tenant.ground.admin, &tenant.mallory[..tenant.mallory.len() - 1]);
    let cased = tenant.mallory.to_uppercase();
    for token in ["", unsigned, short, &cased, "fettle_", "null"] {
        tenant.holds(token, vec![attack("reads nodes", Method::GET, nodes, 401, "access.unauthenticated")]).await;
    }
    // Not in an address, where proxies and logs would see it.
    for path in [format!("{nodes}?token={admin}"), format!("{nodes}?access_token={admin}")] {
        let refused = tenant.send("", Method::GET, &path, None).await;
        assert_eq!(refused.0, StatusCode::UNAUTHORIZED, "{}", refused.1);
    }
}

#[tokio::test]
async fn a_flood_is_stopped_for_whoever_floods_and_for_nobody_else() {
    const FEW: NonZeroU32 = NonZeroU32::new(20).unwrap();
    let rate = RateLimit { per_second: NonZeroU32::MIN, burst: FEW };
    let tenant = Tenant::on(Ground::with(|config| config.rate_limit = Some(rate)).await).await;
    let path = "/api/v1/projects/attack/operations";
    let mut stopped = 0;
    for _ in 0..100 {
        let (status, problem) = tenant.send(&tenant.mallory, Method::GET, path, None).await;
        if status == StatusCode::TOO_MANY_REQUESTS {
            assert_eq!(problem["code"], "request.too_many");
            stopped += 1;
        }
    }
    let (others, _) = tenant.send(&tenant.viewer, Method::GET, path, None).await;
    assert!(stopped > 0 && others == StatusCode::OK, "{stopped} stopped, {others}");
    let large = json!({ "operation_type": "x".repeat(3 << 20) });
    let plan = format!("{path}/plan");
    let (status, problem) = tenant.send(&tenant.viewer, Method::POST, &plan, Some(large)).await;
    assert_eq!((status.as_u16(), &problem["code"]), (413, &json!("request.too_large")));
}
