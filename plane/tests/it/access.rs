//! Who may do what.

use fettle_plane::administration::{Access, ProjectRole};
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::support::{in_project, plane, request, within};

#[tokio::test]
async fn nothing_is_answered_without_a_valid_token() {
    let plane = plane().await;
    let administration = plane.administration().await;
    let (_, expired) =
        administration.create_token("expired", Access::PlatformAdmin, Some(std::time::Duration::ZERO)).await.unwrap();
    let (_, revoked) = administration.create_token("revoked", Access::PlatformAdmin, None).await.unwrap();
    let path = "/api/v1/nodes";
    assert_eq!(plane.call(revoked.reveal(), Method::GET, path, None).await.0, StatusCode::OK);
    administration.revoke_token("revoked").await.unwrap();
    for wrong in ["", "fettle_unknown", expired.reveal(), revoked.reveal()] {
        let (status, problem) = plane.call(wrong, Method::GET, path, None).await;
        assert_eq!((status, &problem["code"]), (StatusCode::UNAUTHORIZED, &json!("access.unauthenticated")));
    }
    let answer = plane.http.get(plane.url(path)).send().await.unwrap();
    assert_eq!(
        (answer.status(), &answer.headers()["www-authenticate"].to_str().unwrap()),
        (StatusCode::UNAUTHORIZED, &"Bearer")
    );
    assert_eq!(answer.headers()["content-type"], "application/problem+json");
}

#[tokio::test]
async fn a_rotated_token_opens_the_same_with_both_secrets_for_a_while_and_its_use_is_noted() {
    let plane = plane().await;
    let administration = plane.administration().await;
    let (_, first) = administration.create_token("ci", Access::PlatformAdmin, None).await.unwrap();
    let path = "/api/v1/nodes";
    let status = async |secret: &str| plane.call(secret, Method::GET, path, None).await.0;
    let (_, second) = administration.rotate_token("ci", std::time::Duration::from_secs(3600)).await.unwrap();
    for secret in [&first, &second] {
        assert_eq!(status(secret.reveal()).await, StatusCode::OK);
    }
    // Somebody else may know it: nothing of it is left.
    let (_, third) = administration.rotate_token("ci", std::time::Duration::ZERO).await.unwrap();
    for (secret, expected) in
        [(&first, StatusCode::UNAUTHORIZED), (&second, StatusCode::UNAUTHORIZED), (&third, StatusCode::OK)]
    {
        assert_eq!(status(secret.reveal()).await, expected);
    }
    within(async {
        while administration.tokens().await.unwrap().iter().all(|token| token.name != "ci" || token.used_at.is_none()) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_foreign_project_is_as_unknown_as_one_that_is_not_there() {
    let plane = plane().await;
    plane.with_definition().await;
    let host = plane.host("node-a", 1).await;
    let path = plane.submitted(&host.name).await;
    let foreign = plane.token("foreign", in_project("other", ProjectRole::Admin)).await;
    let id = path.rsplit_once('/').unwrap().1;
    let attempts = [
        (Method::GET, "/api/v1/projects/demo/operations".to_owned()),
        (Method::GET, path.clone()),
        (Method::GET, format!("{path}/logs")),
        (Method::GET, format!("{path}/events?follow=true")),
        (Method::POST, format!("{path}/cancel")),
        (Method::GET, format!("/api/v1/projects/other/operations/{id}")),
        (Method::GET, "/api/v1/projects/nowhere/operations".to_owned()),
    ];
    for (method, path) in attempts {
        let (status, problem) = plane.call(&foreign, method, &path, None).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}: {problem}");
    }
    let (status, there) =
        plane.call(&foreign, Method::POST, "/api/v1/projects/demo/operations", Some(request("x"))).await;
    let (_, nowhere) = plane.call(&foreign, Method::POST, "/api/v1/projects/none/operations", Some(request("x"))).await;
    assert_eq!((status, &there["code"]), (StatusCode::NOT_FOUND, &nowhere["code"]));
    assert_eq!(plane.get(&path).await["status"], "queued");
}

#[tokio::test]
async fn roles_allow_what_they_should_and_no_more() {
    let plane = plane().await;
    plane.with_definition().await;
    let host = plane.host("node-a", 1).await;
    let viewer = plane.token("viewer", in_project("demo", ProjectRole::Viewer)).await;
    let tenant = Access::TenantAdmin { org_id: "default".parse().unwrap() };
    let tenant = plane.token("tenant", tenant).await;
    let elsewhere = Access::TenantAdmin { org_id: "elsewhere".parse().unwrap() };
    let elsewhere = plane.token("elsewhere", elsewhere).await;
    let operations = "/api/v1/projects/demo/operations";
    for (token, submits) in [
        (&viewer, StatusCode::FORBIDDEN),
        (&plane.member, StatusCode::CREATED),
        (&tenant, StatusCode::CREATED),
        (&plane.admin, StatusCode::CREATED),
        (&elsewhere, StatusCode::NOT_FOUND),
    ] {
        let (status, body) = plane.call(token, Method::POST, operations, Some(request(&host.name))).await;
        assert_eq!(status, submits, "{body}");
    }
    assert_eq!(plane.call(&viewer, Method::GET, operations, None).await.0, StatusCode::OK);
    let definitions = "/api/v1/admin/operation-definitions";
    let body = plane.shelf.publish_noop();
    for token in [&viewer, &plane.member, &tenant] {
        let (status, problem) = plane.call(token, Method::POST, definitions, Some(body.clone())).await;
        assert_eq!((status, &problem["code"]), (StatusCode::FORBIDDEN, &json!("access.denied")));
        assert_eq!(plane.call(token, Method::GET, definitions, None).await.0, StatusCode::OK);
    }
    let trail = plane.administration().await.audit(None).await.unwrap();
    let refused: Vec<_> = trail.iter().filter(|row| row.result == "access.denied").collect();
    let told: Vec<_> = refused.iter().map(|row| (row.action.as_str(), row.scope.as_str())).collect();
    let platform = ("definition.register", "platform");
    assert_eq!(told, [("operation.create", "default/demo"), platform, platform, platform]);
}

#[tokio::test]
async fn a_member_cancels_what_it_asked_for_and_an_administrator_whatever() {
    let plane = plane().await;
    plane.with_definition().await;
    let host = plane.host("node-a", 1).await;
    let other = plane.token("other", in_project("demo", ProjectRole::Member)).await;
    let viewer = plane.token("viewer", in_project("demo", ProjectRole::Viewer)).await;
    let admin = plane.token("project-admin", in_project("demo", ProjectRole::Admin)).await;
    let (own, others) = (plane.submitted(&host.name).await, plane.submitted(&host.name).await);
    for (token, path, status) in [
        (&viewer, &own, StatusCode::FORBIDDEN),
        (&other, &own, StatusCode::FORBIDDEN),
        (&plane.member, &own, StatusCode::OK),
        (&admin, &others, StatusCode::OK),
    ] {
        let (answered, body) = plane.call(token, Method::POST, &format!("{path}/cancel"), None).await;
        assert_eq!(answered, status, "{body}");
    }
    // Another last digit, whatever the last one is: a fixed one is now and then the operation's own.
    let (front, last) = own.split_at(own.len() - 1);
    let unknown = format!("{front}{}", if last == "0" { "1" } else { "0" });
    let (status, problem) = plane.call(&other, Method::POST, &format!("{unknown}/cancel"), None).await;
    assert_eq!((status, &problem["code"]), (StatusCode::NOT_FOUND, &json!("operation.unknown")));
    let trail = plane.administration().await.audit(None).await.unwrap();
    let refused: Vec<_> = trail.iter().filter(|row| row.result == "access.denied").collect();
    assert_eq!(refused.len(), 2);
    let name = own.trim_start_matches("/api/v1/");
    assert!(
        refused.iter().all(|row| row.action == "operation.cancel" && row.resource_name == format!("{name}/cancel"))
    );
}

#[tokio::test]
async fn no_secret_is_kept() {
    let plane = plane().await;
    let join = plane.join_token(1).await;
    crate::support::host::FakeHost::join(&plane.running, &join, "node-a", 1).await.unwrap();
    // What follows the dot is the fingerprint of the authority, which is public.
    let join = join.split_once('.').unwrap().0.to_owned();
    let secrets = [plane.admin.clone(), plane.member.clone(), join];
    for secret in &secrets {
        assert!(secret.starts_with("fettle_") && secret.len() >= 39, "{secret}");
    }
    let written = plane.written();
    let holds = |text: &str| written.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds("member"), "the files that were searched are those of the database");
    for secret in &secrets {
        // Random characters may be underscores too, so the kind in front of them is taken off by its name.
        let kinds = ["fettle_join_", "fettle_"];
        let random = kinds.iter().find_map(|kind| secret.strip_prefix(kind)).unwrap();
        assert!(!holds(secret) && !holds(random), "{secret} is in a file");
    }
}
