//! Who is not listened to for a while.

use std::time::Duration;

use fettle_plane::Lockout;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tonic::Code;

use crate::support::{TestPlane, host::FakeHost, plane_with};

const AFTER: u32 = 3;

fn limit() -> Option<Lockout> {
    Some(Lockout { after: AFTER.try_into().unwrap(), lasts: Duration::from_secs(600) })
}

/// A plane behind a proxy on this machine, which says where requests come from.
async fn behind_a_proxy() -> TestPlane {
    plane_with(|config| {
        config.lockout = limit();
        config.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
    })
    .await
}

/// What is answered to this token, from there.
async fn asked(plane: &TestPlane, from: &str, token: &str) -> (StatusCode, String) {
    let request = plane.http.get(plane.url("/api/v1/nodes")).bearer_auth(token).header("X-Forwarded-For", from);
    let answer = request.send().await.unwrap();
    let status = answer.status();
    assert_eq!(status == StatusCode::TOO_MANY_REQUESTS, answer.headers().contains_key("retry-after"));
    let body: Value = answer.json().await.unwrap();
    (status, body["code"].as_str().unwrap_or_default().to_owned())
}

async fn audited(plane: &TestPlane) -> Vec<(String, String)> {
    let administration = plane.administration().await;
    let rows = administration.audit(None).await.unwrap();
    administration.close().await;
    let lockouts = rows.into_iter().filter(|row| row.action == "access.lock_out");
    lockouts.map(|row| (row.actor, row.resource_name)).collect()
}

#[tokio::test]
async fn an_address_that_shows_too_many_tokens_that_do_not_count_is_locked_out_and_no_other_is() {
    let plane = behind_a_proxy().await;
    let (there, elsewhere) = ("203.0.113.7", "203.0.113.8");
    for number in 0..=AFTER {
        let guess = format!("fettle_{number:032}");
        assert_eq!(asked(&plane, there, &guess).await.0, StatusCode::UNAUTHORIZED);
    }
    let locked_out = (StatusCode::TOO_MANY_REQUESTS, "access.locked_out".to_owned());
    assert_eq!(asked(&plane, there, "fettle_another").await, locked_out);
    assert_eq!(asked(&plane, there, &plane.member).await, locked_out, "whoever guesses right now does not learn it");
    assert_eq!(asked(&plane, &format!("{elsewhere}, {there}"), &plane.member).await, locked_out, "no header helps");
    assert_eq!(asked(&plane, elsewhere, &plane.member).await.0, StatusCode::OK);
    assert_eq!(audited(&plane).await, [("stranger".to_owned(), format!("addresses/{there}"))]);
}

#[tokio::test]
async fn nobody_is_locked_out_by_what_comes_through_this_machine_when_no_proxy_says_from_where() {
    let plane = plane_with(|config| config.lockout = limit()).await;
    for _ in 0..AFTER * 3 {
        assert_eq!(asked(&plane, "203.0.113.7", "fettle_wrong").await.0, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(asked(&plane, "203.0.113.7", &plane.member).await.0, StatusCode::OK);
    assert_eq!(audited(&plane).await, []);
}

#[tokio::test]
async fn whoever_asks_again_and_again_for_what_the_role_does_not_allow_is_locked_out() {
    let plane = behind_a_proxy().await;
    let forbidden = async || {
        let request = plane.http.post(plane.url("/api/v1/admin/operation-definitions")).bearer_auth(&plane.member);
        request.json(&json!({})).send().await.unwrap().status()
    };
    for _ in 0..=AFTER * 3 {
        assert_eq!(forbidden().await, StatusCode::FORBIDDEN);
    }
    assert_eq!(forbidden().await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(asked(&plane, "203.0.113.7", &plane.member).await.1, "access.locked_out", "wherever it comes from");
    assert_eq!(asked(&plane, "203.0.113.7", &plane.admin).await.0, StatusCode::OK);
    let [(actor, resource)] = <[_; 1]>::try_from(audited(&plane).await).unwrap();
    assert!(actor.starts_with("token:") && resource == format!("identities/{actor}"), "{actor} {resource}");
}

#[tokio::test]
async fn an_address_that_shows_too_many_wrong_join_tokens_waits() {
    let plane = plane_with(|config| config.lockout = limit()).await;
    let wrong = plane.join_token(1).await.replace("fettle_join_", "fettle_join_0");
    let join = async || FakeHost::join(&plane.running, &wrong, "node-a", 1).await.err().unwrap();
    for _ in 0..=AFTER {
        assert_eq!(join().await.code(), Code::Unauthenticated);
    }
    let refused = join().await;
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert_eq!(refused.metadata().get("fettle-code").unwrap(), "access.locked_out");
    assert_eq!(audited(&plane).await.len(), 1);
}
