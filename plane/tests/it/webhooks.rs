//! Webhooks: to a receiver on a real socket.

use std::{collections::BTreeSet, time::Duration};

use fettle_credentials::SealingKey;
use fettle_plane::{
    PlaneConfig,
    administration::{Access, ProjectRole},
};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::{
    TestPlane, in_project, plane, plane_with,
    receiver::{Receiver, Reply},
    request, within,
};

const HOOKS: &str = "/api/v1/projects/demo/webhooks";

/// Receivers of this machine may be reached, and are tried again soon.
fn quick(config: &mut PlaneConfig) {
    allow(config, "127.0.0.1");
    config.webhooks.timeout = Duration::from_secs(5);
    config.webhooks.first_delay = Duration::from_millis(20);
    config.webhooks.longest_delay = Duration::from_millis(50);
    config.webhooks.claim = Duration::from_secs(2);
}

fn allow(config: &mut PlaneConfig, host: &str) {
    let networks = config.webhooks.private.private.entry(host.to_owned()).or_default();
    networks.insert("127.0.0.0/8".parse().unwrap());
}

/// A plane with a definition and a node that takes nothing.
async fn quick_plane(change: impl FnOnce(&mut PlaneConfig)) -> TestPlane {
    let plane = plane_with(|config| {
        quick(config);
        change(config);
    })
    .await;
    plane.with_definition().await;
    plane.host("node-a", 1).await;
    plane
}

impl TestPlane {
    /// Makes a webhook, and answers its path and secret.
    async fn webhook(&self, url: &str) -> (String, String) {
        let (status, made) = self.call(&self.admin, Method::POST, HOOKS, Some(json!({ "url": url }))).await;
        assert_eq!(status, StatusCode::CREATED, "{made}");
        let path = format!("/api/v1/projects/demo/webhooks/{}", made["webhook_id"].as_str().unwrap());
        (path, made["secret"].as_str().unwrap().to_owned())
    }

    /// An operation that is asked for and taken back: two events.
    async fn two_events(&self) -> String {
        let path = self.submitted("node-a").await;
        let (status, body) = self.call(&self.member, Method::POST, &format!("{path}/cancel"), None).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        path.rsplit_once('/').unwrap().1.to_owned()
    }

    async fn look(&self, path: &str) -> Value {
        let (status, body) = self.call(&self.admin, Method::GET, path, None).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        body
    }

    /// Waits until a webhook looks so.
    async fn until(&self, path: &str, holds: impl Fn(&Value) -> bool + Send + Sync) -> Value {
        within(async {
            loop {
                let shown = self.look(path).await;
                if holds(&shown) {
                    return shown;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
    }
}

#[tokio::test]
async fn events_arrive_signed_whole_and_in_order() {
    let plane = quick_plane(|_| {}).await;
    let receiver = Receiver::start(&[]).await;
    let (path, secret) = plane.webhook(&receiver.url).await;
    let mut operations = Vec::new();
    for _ in 0..3 {
        operations.push(plane.two_events().await);
    }
    let arrived = receiver.arrived(6).await;
    assert!(arrived.iter().all(|one| one.is_signed_with(&secret)));
    assert!(arrived.iter().all(|one| one.headers["content-type"] == "application/json"));
    assert_eq!(arrived.iter().map(|one| one.id()).collect::<BTreeSet<_>>().len(), 6);
    for operation in &operations {
        let told = arrived.iter().filter(|one| one.json()["data"]["operation_id"] == **operation);
        assert_eq!(told.map(|one| one.kind()).collect::<Vec<_>>(), ["operation.requested", "operation.canceled"]);
    }
    let first = arrived[0].json();
    assert!(
        first["timestamp"].is_string() && first["sequence"].is_i64() && first["data"]["correlation_id"].is_string()
    );
    let last = json!(arrived[5].json()["sequence"].to_string());
    let shown = plane.until(&path, |shown| shown["delivered_to"] == last).await;
    assert_eq!((&shown["last_answer"], &shown["state"]), (&json!("status 200"), &json!("active")));
    assert_eq!((&shown["attempts"], &shown["dead_letters"]), (&json!(0), &json!(0)));
    let listed = plane.look("/api/v1/projects/demo/webhooks").await;
    assert_eq!(listed["items"], json!([shown]));
    assert!(!listed.to_string().contains("whsec_"), "{listed}");
}

#[tokio::test]
async fn a_failing_receiver_is_asked_again_with_the_same_id_and_nothing_overtakes() {
    let plane = quick_plane(|config| config.webhooks.timeout = Duration::from_millis(400)).await;
    let replies = [Reply::Status(500), Reply::Hang, Reply::Later(429, 0), Reply::Endless];
    let receiver = Receiver::start(&replies).await;
    plane.webhook(&receiver.url).await;
    plane.two_events().await;
    let arrived = receiver.arrived(5).await;
    let ids: Vec<_> = arrived.iter().map(|one| one.id()).collect();
    assert!(ids[..4].iter().all(|id| *id == ids[0]) && ids[4] != ids[0], "{ids:?}");
    let kinds: Vec<_> = arrived.iter().map(|one| one.kind()).collect();
    assert_eq!([&*kinds[0], &*kinds[4]], ["operation.requested", "operation.canceled"]);
}

#[tokio::test]
async fn a_receiver_that_asks_for_time_is_given_it() {
    let plane = quick_plane(|_| {}).await;
    let receiver = Receiver::start(&[Reply::Later(503, 1)]).await;
    plane.webhook(&receiver.url).await;
    plane.submitted("node-a").await;
    let arrived = receiver.arrived(2).await;
    assert!(arrived[1].at - arrived[0].at >= Duration::from_millis(950));
}

#[tokio::test]
async fn a_receiver_that_is_gone_is_left_alone_until_somebody_says_otherwise() {
    let plane = quick_plane(|_| {}).await;
    let receiver = Receiver::start(&[Reply::Status(410)]).await;
    let (path, _) = plane.webhook(&receiver.url).await;
    plane.two_events().await;
    let shown = plane.until(&path, |shown| shown["state"] == "gone").await;
    assert_eq!((receiver.count(), &shown["dead_letters"]), (1, &json!(0)));
    let (status, shown) = plane.call(&plane.admin, Method::PATCH, &path, Some(json!({ "state": "active" }))).await;
    assert_eq!((status, &shown["state"]), (StatusCode::OK, &json!("active")));
    assert_eq!(receiver.arrived(3).await[2].kind(), "operation.canceled");
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_a_dead_letter_is_told_again_when_asked_for() {
    let plane = quick_plane(|config| config.webhooks.attempts = 2).await;
    let elsewhere = Receiver::start(&[]).await;
    let redirect = Reply::Redirect(elsewhere.url.clone());
    let receiver = Receiver::start(&[redirect.clone(), redirect, Reply::Status(400), Reply::Status(404)]).await;
    let (path, _) = plane.webhook(&receiver.url).await;
    plane.two_events().await;
    plane.until(&path, |shown| shown["dead_letters"] == 2).await;
    assert_eq!(elsewhere.count(), 0);
    let letters = plane.look(&format!("{path}/dead-letters?page_size=1")).await;
    let letter = &letters["items"][0];
    assert_eq!((&letter["event"], &letter["attempts"]), (&json!("operation.requested"), &json!(2)));
    assert!(letter["last_answer"].as_str().unwrap().contains("redirects are not followed"), "{letter}");
    let next = letters["next_cursor"].as_str().unwrap();
    let rest = plane.look(&format!("{path}/dead-letters?cursor={next}")).await;
    assert_eq!(rest["items"][0]["last_answer"], "status 404");

    let replay = |body| plane.call(&plane.admin, Method::POST, format!("{path}/dead-letters/replay").leak(), body);
    let (status, answer) = replay(Some(json!({ "cursors": [letter["cursor"]] }))).await;
    assert_eq!((status, &answer["replayed"]), (StatusCode::OK, &json!(1)));
    let arrived = receiver.arrived(5).await;
    assert_eq!(arrived[4].id(), arrived[0].id());
    plane.until(&path, |shown| shown["dead_letters"] == 1).await;
    assert_eq!(replay(None).await.1["replayed"], 1);
    assert_eq!(receiver.arrived(6).await[5].kind(), "operation.canceled");
    plane.until(&path, |shown| shown["dead_letters"] == 0).await;
    let (status, problem) = replay(Some(json!({ "cursors": ["first"] }))).await;
    assert_eq!((status, &problem["code"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("request.invalid")));
}

#[tokio::test]
async fn the_schedule_survives_a_restart() {
    let plane = quick_plane(|_| {}).await;
    let waits = Receiver::start(&[Reply::Later(503, 3600)]).await;
    let (path, _) = plane.webhook(&waits.url).await;
    plane.submitted("node-a").await;
    let before = plane.until(&path, |shown| shown["next_attempt_at"].is_string()).await;
    let plane = plane.restart_with(Duration::ZERO, quick).await;
    let other = Receiver::start(&[]).await;
    plane.webhook(&other.url).await;
    plane.submitted("node-a").await;
    other.arrived(1).await;
    let after = plane.look(&path).await;
    assert_eq!((&after["next_attempt_at"], &after["attempts"]), (&before["next_attempt_at"], &json!(1)));
    assert_eq!(waits.count(), 1);
}

#[tokio::test]
async fn what_was_sent_and_not_written_down_is_sent_again_with_the_same_id() {
    let plane = quick_plane(|_| {}).await;
    let receiver = Receiver::start(&[Reply::Hang]).await;
    let (_, secret) = plane.webhook(&receiver.url).await;
    plane.two_events().await;
    receiver.arrived(1).await;
    let _plane = plane.restart_with(Duration::ZERO, quick).await;
    let arrived = receiver.arrived(3).await;
    assert_eq!(arrived[0].id(), arrived[1].id());
    assert_ne!(arrived[1].id(), arrived[2].id());
    assert!(arrived[1].is_signed_with(&secret));
}

#[tokio::test]
async fn while_a_secret_is_exchanged_both_are_good() {
    let plane = quick_plane(|_| {}).await;
    let receiver = Receiver::start(&[]).await;
    let (path, first) = plane.webhook(&receiver.url).await;
    let rotate = |body| plane.call(&plane.admin, Method::POST, format!("{path}/rotate-secret").leak(), body);
    let (status, rotated) = rotate(None).await;
    assert_eq!(status, StatusCode::OK, "{rotated}");
    let second = rotated["secret"].as_str().unwrap().to_owned();
    plane.submitted("node-a").await;
    let both = receiver.arrived(1).await.remove(0);
    assert!(first != second && both.is_signed_with(&first) && both.is_signed_with(&second));
    let third = rotate(Some(json!({ "overlap_seconds": 0 }))).await.1["secret"].as_str().unwrap().to_owned();
    plane.submitted("node-a").await;
    let one = receiver.arrived(2).await.remove(1);
    assert!(one.is_signed_with(&third) && !one.is_signed_with(&second) && !one.is_signed_with(&first));
    let (status, _) = rotate(Some(json!({ "overlap_seconds": 99_999_999 }))).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
}

/// A key in a file of its own.
fn key(directory: &tempfile::TempDir) -> std::path::PathBuf {
    let path = directory.path().join("key");
    SealingKey::generate(&path).unwrap();
    path
}

#[tokio::test]
async fn a_plane_with_a_key_writes_no_secret_and_one_without_does() {
    let directory = tempfile::tempdir().unwrap();
    let with = key(&directory);
    for (key, is_written) in [(Some(with), false), (None, true)] {
        let plane = quick_plane(|config| config.secret_key = key).await;
        let receiver = Receiver::start(&[]).await;
        let (_, secret) = plane.webhook(&receiver.url).await;
        plane.submitted("node-a").await;
        assert!(receiver.arrived(1).await[0].is_signed_with(&secret));
        let written = plane.written();
        let holds = |text: &str| written.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(holds(&receiver.url), "the files that were searched are those of the database");
        assert_eq!(holds(secret.trim_start_matches("whsec_")), is_written);
    }
}

#[tokio::test]
async fn what_was_kept_in_clear_is_sealed_once_there_is_a_key_and_is_not_lost_without_it() {
    let directory = tempfile::tempdir().unwrap();
    let key = key(&directory);
    let patient = |config: &mut PlaneConfig| {
        quick(config);
        config.webhooks.attempts = u32::MAX;
    };
    let with = |config: &mut PlaneConfig| {
        patient(config);
        config.secret_key = Some(key.clone());
    };
    let plane = quick_plane(patient).await;
    let receiver = Receiver::start(&[]).await;
    let (path, first) = plane.webhook(&receiver.url).await;
    let rotated = plane.call(&plane.admin, Method::POST, &format!("{path}/rotate-secret"), None).await.1;
    let second = rotated["secret"].as_str().unwrap().to_owned();
    let plane = plane.restart_with(Duration::ZERO, with).await;
    let plane = plane.restart_with(Duration::ZERO, patient).await;
    plane.submitted("node-a").await;
    let shown = plane.until(&path, |shown| shown["attempts"].as_u64() > Some(1)).await;
    let said = shown["last_answer"].as_str().unwrap();
    assert!(said.contains("without a key") && said.contains("--secret-key"), "{said}");
    assert_eq!(receiver.count(), 0, "nothing is sent that is not signed");
    let plane = plane.restart_with(Duration::ZERO, with).await;
    let arrived = receiver.arrived(1).await.remove(0);
    assert!(arrived.is_signed_with(&first) && arrived.is_signed_with(&second));
    let plane = plane.restart_with(Duration::ZERO, patient).await;
    let rotated = plane.call(&plane.admin, Method::POST, &format!("{path}/rotate-secret"), None).await.1;
    plane.submitted("node-a").await;
    let arrived = receiver.arrived(2).await.remove(1);
    assert!(arrived.is_signed_with(rotated["secret"].as_str().unwrap()), "a lost key is overcome by a new secret");
}

/// Counts connections.
async fn counted() -> (u16, tokio::sync::watch::Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, receiver) = tokio::sync::watch::channel(0);
    tokio::spawn(async move {
        loop {
            let _ = listener.accept().await.unwrap();
            sender.send_modify(|count| *count += 1);
        }
    });
    (port, receiver)
}

#[tokio::test]
async fn nothing_inside_is_reached_that_the_administrator_did_not_name() {
    let plane = quick_plane(|config| config.webhooks.attempts = 1).await;
    let (port, inside) = counted().await;
    // `127.0.0.1` is allowed in this plane, but only where it is written so.
    for url in
        [format!("https://localhost:{port}/"), format!("https://[::1]:{port}/"), "https://169.254.169.254/".into()]
    {
        let (path, _) = plane.webhook(&url).await;
        plane.submitted("node-a").await;
        let shown = plane.until(&path, |shown| shown["dead_letters"] == 1).await;
        let said = shown["last_answer"].as_str().unwrap();
        assert!(said.contains("--webhook-private") && !said.contains("127.0.0.1"), "{url}: {said}");
        assert_eq!(plane.call(&plane.admin, Method::DELETE, &path, None).await.0, StatusCode::NO_CONTENT);
    }
    assert_eq!(*inside.borrow(), 0);
    let plane = plane
        .restart_with(Duration::ZERO, |config| {
            quick(config);
            allow(config, "localhost");
        })
        .await;
    // The same address, named by the administrator, is connected to: what kept it out is the protection.
    plane.webhook(&format!("https://localhost:{port}/")).await;
    plane.submitted("node-a").await;
    let mut inside = inside;
    within(inside.wait_for(|count| *count > 0)).await.unwrap();
}

#[tokio::test]
async fn an_organisation_hears_of_all_its_projects_and_each_of_what_it_asked_for() {
    let plane = quick_plane(|_| {}).await;
    let (everything, ends) = (Receiver::start(&[]).await, Receiver::start(&[]).await);
    let beside = plane.token("beside", in_project("beside", ProjectRole::Member)).await;
    let tenant = Access::TenantAdmin { org_id: "default".parse().unwrap() };
    let tenant = plane.token("tenant", tenant).await;
    let hooks = "/api/v1/tenants/default/webhooks";
    let (status, made) = plane.call(&tenant, Method::POST, hooks, Some(json!({ "url": everything.url }))).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let body = json!({ "url": ends.url, "events": ["operation.canceled"] });
    assert_eq!(plane.call(&plane.admin, Method::POST, HOOKS, Some(body)).await.0, StatusCode::CREATED);
    let operations = "/api/v1/projects/beside/operations";
    assert_eq!(plane.call(&beside, Method::POST, operations, Some(request("node-a"))).await.0, StatusCode::CREATED);
    plane.two_events().await;
    let arrived = everything.arrived(3).await;
    let projects: Vec<Value> = arrived.iter().map(|one| one.json()["data"]["project_id"].clone()).collect();
    assert_eq!(projects, ["beside", "demo", "demo"]);
    assert_eq!(ends.arrived(1).await[0].kind(), "operation.canceled");
    let id = made["webhook_id"].as_str().unwrap();
    let path = format!("/api/v1/tenants/default/webhooks/{id}");
    assert!(plane.call(&tenant, Method::GET, &path, None).await.1["project_id"].is_null());
    let rotated = plane.call(&tenant, Method::POST, &format!("{path}/rotate-secret"), None).await.1;
    assert!(rotated["secret"].as_str().unwrap().starts_with("whsec_"));
    assert_eq!(plane.call(&tenant, Method::GET, &format!("{path}/dead-letters"), None).await.1["items"], json!([]));
    let replayed = plane.call(&tenant, Method::POST, &format!("{path}/dead-letters/replay"), None).await.1;
    assert_eq!(replayed["replayed"], 0);
    let paused = plane.call(&tenant, Method::PATCH, &path, Some(json!({ "state": "paused" }))).await.1;
    assert_eq!(paused["state"], "paused");
    assert_eq!(plane.call(&tenant, Method::DELETE, &path, None).await.0, StatusCode::NO_CONTENT);
    assert_eq!(plane.call(&tenant, Method::GET, hooks, None).await.1["items"], json!([]));
}

#[tokio::test]
async fn only_administrators_make_webhooks_and_a_bad_one_is_refused_with_every_reason() {
    let plane = plane().await;
    let body = json!({ "url": "https://receiver.example/" });
    let (status, problem) = plane.call(&plane.member, Method::POST, HOOKS, Some(body)).await;
    assert_eq!((status, &problem["code"]), (StatusCode::FORBIDDEN, &json!("access.denied")));
    let body = json!({ "url": "http://user@receiver.example/", "events": ["operation.begun"] });
    let (status, problem) = plane.call(&plane.admin, Method::POST, HOOKS, Some(body)).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
    assert_eq!(crate::support::pointers(&problem), ["/url", "/url", "/events/0"]);
    let (status, problem) = plane.call(&plane.admin, Method::GET, &format!("{HOOKS}/nothing"), None).await;
    assert_eq!((status, &problem["code"]), (StatusCode::NOT_FOUND, &json!("webhook.unknown")));
}
