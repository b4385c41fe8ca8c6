//! Logs and events: paged, followed, resumed.

use fettle_wire::node::{Lease, Verdict};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{
    TestPlane,
    host::{FakeHost, Reports, logged, progress, started, succeeded},
    plane,
};

struct Running {
    plane: TestPlane,
    host: FakeHost,
    reports: Reports,
    lease: Lease,
    path: String,
}

/// An operation whose first step runs.
async fn running() -> Running {
    let plane = plane().await;
    plane.with_definition().await;
    let mut host = plane.host("node-a", 1).await;
    let mut pull = host.pull(&[], 1).await;
    let path = plane.submitted("node-a").await;
    let lease = pull.lease().await;
    host.ack(&lease).await.unwrap();
    let mut reports = host.reports().await;
    assert_eq!(reports.say(&lease, 1, &started("first", 1)).await, Verdict::Accepted);
    Running { plane, host, reports, lease, path }
}

impl Running {
    async fn finish(&mut self, mut sequence: u64) {
        for step in ["first", "second"] {
            self.reports.say(&self.lease, sequence, &succeeded(step, json!({}))).await;
            sequence += 1;
        }
        assert_eq!(self.host.complete(&self.lease, false).await.unwrap(), Verdict::Accepted);
    }
}

fn texts(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|line| line["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn logs_come_in_pages() {
    let mut running = running().await;
    running.reports.say(&running.lease, 2, &logged("first", &["a", "b"])).await;
    running.reports.say(&running.lease, 3, &logged("second", &["c"])).await;
    let (plane, path) = (&running.plane, &running.path);
    let page = plane.get(&format!("{path}/logs?page_size=2")).await;
    assert_eq!(texts(&page), ["a", "b"]);
    assert_eq!((&page["items"][0]["level"], &page["items"][0]["step_id"]), (&json!("info"), &json!("first")));
    assert_eq!(page["items"][0]["at"], "2027-01-15T08:00:00.001Z");
    let next = page["next_cursor"].as_str().unwrap();
    let page = plane.get(&format!("{path}/logs?cursor={next}")).await;
    assert_eq!(texts(&page), ["c"]);
    // The cursor of the last page is where to look for more later.
    let last = page["next_cursor"].as_str().unwrap();
    assert_eq!(texts(&plane.get(&format!("{path}/logs?cursor={last}")).await), Vec::<&str>::new());
    assert_eq!(texts(&plane.get(&format!("{path}/logs?step_id=second")).await), ["c"]);
    assert_eq!(plane.get(path).await["steps"][0]["last_log"], "b");
    let (status, _) = plane.call(&plane.member, Method::GET, &format!("{path}/logs?step_id=No"), None).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn a_followed_log_shows_what_is_there_what_comes_and_the_end() {
    let mut running = running().await;
    running.reports.say(&running.lease, 2, &logged("first", &["before"])).await;
    let path = format!("{}/logs?follow=true", running.path);
    let mut stream = running.plane.follow(&path, None).await;
    let first = stream.next().await.unwrap();
    assert_eq!((first.event.as_str(), &first.data["text"]), ("log", &json!("before")));
    running.reports.say(&running.lease, 3, &logged("first", &["while"])).await;
    assert_eq!(stream.next().await.unwrap().data["text"], "while");
    running.reports.say(&running.lease, 4, &logged("first", &["last"])).await;
    running.finish(5).await;
    let rest = stream.rest().await;
    assert_eq!(rest.iter().map(|sent| sent.event.as_str()).collect::<Vec<_>>(), ["log", "end"]);

    // A reader that comes back after the first line gets the other two and the end.
    let again = running.plane.follow(&path, first.id.as_deref()).await.rest().await;
    let lines: Vec<_> = again.iter().filter_map(|sent| sent.data["text"].as_str()).collect();
    assert_eq!(lines, ["while", "last"]);
}

#[tokio::test]
async fn followed_events_tell_the_whole_story_once() {
    let mut running = running().await;
    let path = format!("{}/events?follow=true", running.path);
    let mut stream = running.plane.follow(&path, None).await;
    let requested = stream.next().await.unwrap();
    assert_eq!(requested.event, "operation.requested");
    running.reports.say(&running.lease, 2, &progress("first", 50)).await;
    running.finish(3).await;
    let rest = stream.rest().await;
    let told: Vec<_> = rest
        .iter()
        .map(|sent| (sent.event.as_str(), sent.data["payload"]["step_status"].as_str().unwrap_or_default()))
        .collect();
    assert_eq!(
        told,
        [
            ("operation.progress", "running"),
            ("operation.progress", "running"),
            ("operation.progress", "succeeded"),
            ("operation.progress", "succeeded"),
            ("operation.completed", ""),
            ("end", ""),
        ]
    );
    let payload = &rest[1].data["payload"];
    for field in ["operation_id", "correlation_id", "current_step_index", "total_steps", "current_step_name"] {
        assert!(!payload[field].is_null(), "{field}");
    }
    assert_eq!((&payload["step_percent"], &payload["step_started_at"]), (&json!(50), &json!("2027-01-15T08:00:00Z")));

    let resumed = running.plane.follow(&path, rest[2].id.as_deref()).await.rest().await;
    assert_eq!(resumed, rest[3..]);
    let paged = running.plane.get(&format!("{}/events?page_size=3", running.path)).await;
    assert_eq!(paged["items"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn followers_are_let_go_when_the_plane_stops() {
    let running = running().await;
    let mut stream = running.plane.follow(&format!("{}/events?follow=true", running.path), None).await;
    stream.next().await.unwrap();
    crate::support::within(running.plane.running.shutdown()).await;
    let rest = stream.rest().await;
    assert!(rest.iter().all(|sent| sent.event != "end"), "the operation is not over: {rest:?}");
}
