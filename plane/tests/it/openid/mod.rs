//! People and programs that a real OpenID provider vouches for: `oidc-provider`, which is certified, as a process.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

use crate::support::{TestPlane, plane_with};

/// A provider that runs, and ends with this.
struct Provider {
    issuer: String,
    _process: Child,
}

/// Where `cargo xtask test` puts the package.
fn package() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
    let package = target.join("tools/openid/node_modules/oidc-provider");
    if package.is_dir() {
        return Some(package);
    }
    assert!(std::env::var_os("FETTLE_TEST_ALL").is_none(), "{} is missing; run `cargo xtask test`", package.display());
    println!("skipped: {} is missing; `cargo xtask test` installs it", package.display());
    None
}

impl Provider {
    async fn start() -> Option<Self> {
        let package = package()?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/openid/provider.mjs");
        let mut process = Command::new("node")
            .arg(script)
            .arg(package)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let issuer = lines.next_line().await.unwrap().expect("the provider starts");
        Some(Self { issuer, _process: process })
    }

    /// What a pipeline is given for its secret.
    async fn pipeline(&self) -> String {
        let form = [("grant_type", "client_credentials"), ("client_id", "ci"), ("client_secret", "ci-secret")];
        let body = form.map(|(name, value)| format!("{name}={value}")).join("&");
        let request = reqwest::Client::new().post(format!("{}/token", self.issuer)).body(body);
        let answer = request.header("content-type", "application/x-www-form-urlencoded").send().await.unwrap();
        let answer: Value = answer.json().await.unwrap();
        answer["access_token"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }
}

/// A plane that believes this issuer, and gives these roles.
async fn believing(issuer: &str, audience: &str, rules: &Value) -> TestPlane {
    let document = json!({ "issuers": [{ "issuer": issuer, "audience": audience, "rules": rules }] });
    plane_with(|config| {
        let path = config.data_directory.join("openid.yaml");
        std::fs::write(&path, document.to_string()).unwrap();
        config.openid = Some(path);
    })
    .await
}

fn pipelines_are_members() -> Value {
    json!([{ "claims": { "groups": "pipelines" }, "role": "project_member", "project": "demo" }])
}

/// Lists the operations of the project, and says what came of it.
async fn list(plane: &TestPlane, token: &str) -> (StatusCode, Value) {
    plane.call(token, Method::GET, "/api/v1/projects/demo/operations", None).await
}

#[tokio::test]
async fn a_pipeline_has_the_role_that_its_claims_give_and_its_name_is_in_the_audit_trail() {
    let Some(provider) = Provider::start().await else { return };
    let plane = believing(&provider.issuer, "fettle", &pipelines_are_members()).await;
    plane.with_definition().await;
    plane.host("node-a", 1).await;
    let token = provider.pipeline().await;
    assert_eq!(list(&plane, &token).await.0, StatusCode::OK);
    let body = json!({ "operation_type": "test.noop", "version": "v1", "inputs": { "name": "x", "count": 3 },
        "target_selector": { "node": "node-a" } });
    let (status, created) = plane.call(&token, Method::POST, "/api/v1/projects/demo/operations", Some(body)).await;
    assert_eq!(status, StatusCode::CREATED, "{created}");
    let somebody = format!("user:{}#ci:ci", provider.issuer);
    let path = format!("/api/v1/projects/demo/operations/{}", created["operation_id"].as_str().unwrap());
    assert_eq!(plane.get(&path).await["requested_by_user_id"], somebody);
    // A member's role and no more, and the refusal names who it was.
    let definitions = "/api/v1/admin/operation-definitions";
    let (status, refused) = plane.call(&token, Method::POST, definitions, Some(json!({}))).await;
    assert_eq!((status, &refused["code"]), (StatusCode::FORBIDDEN, &json!("access.denied")));
    let rows = plane.administration().await.audit(None).await.unwrap();
    assert!(rows.iter().any(|row| row.actor == somebody && row.result == "access.denied"), "{rows:#?}");
    // The plane's own tokens go on.
    assert_eq!(list(&plane, &plane.member).await.0, StatusCode::OK);
    let kept = format!("{:?}", plane.administration().await.audit(None).await.unwrap());
    assert!(!kept.contains(&token), "a token is in the audit trail");
}

#[tokio::test]
async fn what_does_not_count_is_refused_with_its_reason() {
    let Some(provider) = Provider::start().await else { return };
    let token = provider.pipeline().await;
    let refused = async |plane: TestPlane, token: &str, status: StatusCode, code: &str, sentence: &str| {
        let (answered, problem) = list(&plane, token).await;
        assert_eq!((answered, &problem["code"]), (status, &json!(code)), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(sentence), "{problem}");
    };
    let (unauthenticated, code) = (StatusCode::UNAUTHORIZED, "access.unauthenticated");
    let others = believing(&provider.issuer, "another", &pipelines_are_members()).await;
    refused(others, &token, unauthenticated, code, "for another audience than `another`").await;
    let slash = believing(&format!("{}/", provider.issuer), "fettle", &pipelines_are_members()).await;
    refused(slash, &token, unauthenticated, code, "letter by letter, slashes too").await;
    let plane = believing(&provider.issuer, "fettle", &pipelines_are_members()).await;
    let mut bent: Vec<_> = token.split('.').map(str::to_owned).collect();
    bent[2].replace_range(..8, "AAAAAAAA");
    refused(plane, &bent.join("."), unauthenticated, code, "not by the key of").await;
    let rules = json!([{ "claims": { "groups": "administrators" }, "role": "platform_admin" }]);
    let nobody = believing(&provider.issuer, "fettle", &rules).await;
    refused(nobody, &token, StatusCode::FORBIDDEN, "access.no_role", "vouches for `ci`, and no rule").await;
    let without = plane_with(|_| {}).await;
    refused(without, &token, unauthenticated, code, "send `Authorization: Bearer <token>`").await;
}

#[tokio::test]
async fn a_provider_that_is_away_is_told_from_a_token_that_does_not_count() {
    let Some(provider) = Provider::start().await else { return };
    let (issuer, token) = (provider.issuer.clone(), provider.pipeline().await);
    drop(provider);
    let plane = believing(&issuer, "fettle", &pipelines_are_members()).await;
    let (status, problem) = list(&plane, &token).await;
    assert_eq!((status, &problem["code"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("access.issuer_unavailable")));
    assert!(problem["detail"].as_str().unwrap().contains(&issuer), "{problem}");
    assert_eq!(list(&plane, &plane.member).await.0, StatusCode::OK, "others are not kept waiting");
}
