//! Nobody learns of what belongs to somebody else: every endpoint whose path names something is called with
//! names that another tenant has, and must answer as it does for names that nobody has.

use fettle_plane::administration::{Access, ProjectRole, project};
use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::support::{TestPlane, host::FakeHost, in_project, plane, request};

/// What a parameter of a path stands for: the name that the victim has, and one that nobody has.
struct Names {
    operation: String,
    node: String,
    webhook: String,
}

/// Nobody's operation.
const NO_OPERATION: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

impl Names {
    /// A path with the victim's names, and the same with nobody's. `own` is a project of the caller that
    /// stands in for the victim's in both.
    fn fill(&self, path: &str, own: Option<&str>) -> [String; 2] {
        let (project, nowhere) = own.map_or(("demo", "nowhere"), |own| (own, own));
        let pairs = [
            ("{project}", project, nowhere),
            ("{tenant}", "default", "nobody"),
            ("{operation_id}", self.operation.as_str(), NO_OPERATION),
            ("{node}", self.node.as_str(), "no-node"),
            ("{operation_type}", "test.noop", "test.other"),
            ("{group}", "canary", "no-group"),
            ("{allocation}", "a-7", "no-allocation"),
            ("{webhook}", self.webhook.as_str(), NO_OPERATION),
        ];
        let fill = |nobodys: bool| {
            let filled = pairs.iter().fold(path.to_owned(), |path, (name, theirs, other)| {
                path.replace(name, if nobodys { other } else { theirs })
            });
            assert!(!filled.contains('{'), "{path}: say in plane/tests/it/tenancy.rs what its parameters name");
            filled
        };
        [fill(false), fill(true)]
    }

    /// An answer without the names that were asked for, so that two can be compared.
    fn blank(&self, answer: &Value) -> String {
        let names = [&*self.operation, NO_OPERATION, &self.node, "no-node", "nowhere", "demo", "`default`", "`nobody`"];
        let names = names.into_iter().chain([self.webhook.as_str()]);
        let others = ["test.noop", "test.other", "canary", "no-group", "a-7", "no-allocation"];
        names.chain(others).fold(answer.to_string(), |text, name| text.replace(name, "*"))
    }
}

/// Method and path of every endpoint that names something which has an owner.
async fn endpoints(plane: &TestPlane) -> Vec<(Method, String)> {
    let document: Value = plane.http.get(plane.url("/api/v1/openapi.json")).send().await.unwrap().json().await.unwrap();
    let mut found = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        // What the platform owns has no tenant: everybody may read it, or nobody but the platform.
        if !path.contains('{') || path.starts_with("/api/v1/admin/") {
            continue;
        }
        let verbs = ["get", "post", "put", "patch", "delete"];
        let methods = methods.as_object().unwrap().keys().filter(|name| verbs.contains(&name.as_str()));
        found.extend(methods.map(|name| (name.to_uppercase().parse().unwrap(), path.clone())));
    }
    assert!(found.len() >= 8, "{found:?}");
    found
}

async fn victim(plane: &TestPlane) -> Names {
    plane.with_definition().await;
    let administration = plane.administration().await;
    let owner = project("demo".parse().unwrap(), None);
    let join = administration.create_join_token(1, owner, std::time::Duration::from_secs(60)).await.unwrap();
    administration.close().await;
    let host = FakeHost::join(&plane.running, join.reveal(), "node-a", 1).await.unwrap();
    for set in ["node-groups/canary", "allocations/a-7"] {
        let body = serde_json::json!({ "nodes": [host.name] });
        let (path, admin) = (format!("/api/v1/projects/demo/{set}"), &plane.admin);
        assert_eq!(plane.call(admin, Method::PUT, &path, Some(body)).await.0, StatusCode::OK);
    }
    let body = serde_json::json!({ "url": "https://192.0.2.1/", "state": "paused" });
    let path = "/api/v1/projects/demo/webhooks";
    let (status, webhook) = plane.call(&plane.admin, Method::POST, path, Some(body)).await;
    assert_eq!(status, StatusCode::CREATED, "{webhook}");
    let webhook = webhook["webhook_id"].as_str().unwrap().to_owned();
    let path = plane.submitted(&host.name).await;
    Names { webhook, operation: path.rsplit_once('/').unwrap().1.to_owned(), node: host.name }
}

/// Tokens of others: of a tenant, of its project in every role, and of another project of the same tenant,
/// each with the project it has.
async fn strangers(plane: &TestPlane) -> Vec<(String, &'static str, bool)> {
    let elsewhere = || project("theirs".parse().unwrap(), "elsewhere".parse().ok()).unwrap();
    let mut tokens = Vec::new();
    for (name, role) in
        [("admin", ProjectRole::Admin), ("member", ProjectRole::Member), ("viewer", ProjectRole::Viewer)]
    {
        let access = Access::Project { project: elsewhere(), role };
        tokens.push((plane.token(&format!("their-{name}"), access).await, "theirs", role == ProjectRole::Admin));
        let access = in_project("beside", role);
        tokens.push((plane.token(&format!("beside-{name}"), access).await, "beside", role == ProjectRole::Admin));
    }
    let tenant = Access::TenantAdmin { org_id: "elsewhere".parse().unwrap() };
    tokens.push((plane.token("their-tenant", tenant).await, "theirs", true));
    tokens
}

#[tokio::test]
async fn what_is_somebody_elses_is_as_unknown_as_what_is_not_there() {
    let plane = plane().await;
    let names = victim(&plane).await;
    let strangers = strangers(&plane).await;
    for (method, path) in endpoints(&plane).await {
        for (token, own, _) in &strangers {
            // Those of the same organisation know of it: it is theirs.
            if path.contains("{tenant}") && *own == "beside" {
                continue;
            }
            let [theirs, nobodys] = names.fill(&path, None);
            let (status, there) = plane.call(token, method.clone(), &theirs, None).await;
            let (_, nowhere) = plane.call(token, method.clone(), &nobodys, None).await;
            assert_eq!(status, StatusCode::NOT_FOUND, "{method} {theirs}: {there}");
            assert_eq!(names.blank(&there), names.blank(&nowhere), "{method} {theirs}");
        }
    }
    assert_eq!(plane.get(&format!("/api/v1/projects/demo/operations/{}", names.operation)).await["status"], "queued");
}

#[tokio::test]
async fn the_names_of_others_are_nobodys_in_ones_own_project() {
    let plane = plane().await;
    let names = victim(&plane).await;
    let endpoints = endpoints(&plane).await;
    let mut compared = 0;
    for (token, own, is_admin) in strangers(&plane).await {
        for (method, path) in endpoints.iter().filter(|(_, path)| path.contains("{operation_id}")) {
            let [theirs, nobodys] = names.fill(path, Some(own));
            let (status, there) = plane.call(&token, method.clone(), &theirs, None).await;
            let (other, nowhere) = plane.call(&token, method.clone(), &nobodys, None).await;
            assert_eq!((status, names.blank(&there)), (other, names.blank(&nowhere)), "{method} {theirs}");
            assert!(status == StatusCode::NOT_FOUND || (!is_admin && status == StatusCode::FORBIDDEN), "{there}");
            compared += 1;
        }
        let path = format!("/api/v1/projects/{own}/operations/plan");
        let (_, there) = plane.call(&token, Method::POST, &path, Some(request(&names.node))).await;
        let (_, nowhere) = plane.call(&token, Method::POST, &path, Some(request("no-node"))).await;
        assert_eq!(names.blank(&there), names.blank(&nowhere), "{path}");
    }
    assert!(compared >= 28, "{compared}");
}
