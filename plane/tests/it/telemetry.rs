//! What the plane says of itself: metrics on a port of their own, and a place in a trace for every request.

use std::collections::BTreeMap;

use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::support::{
    TestPlane,
    host::{self, started},
    plane, plane_with, request,
};

const SENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A plane that serves metrics.
async fn measured() -> TestPlane {
    plane_with(|config| config.metrics_listen = Some(([127, 0, 0, 1], 0).into())).await
}

/// Every number by its name and labels.
async fn metrics(plane: &TestPlane) -> BTreeMap<String, f64> {
    let url = format!("http://{}/metrics", plane.running.metrics_address().unwrap());
    let text = plane.http.get(url).send().await.unwrap().text().await.unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

#[tokio::test]
async fn an_operation_is_counted_from_its_request_to_its_end() {
    let plane = measured().await;
    plane.with_definition().await;
    let mut host = plane.host("node-a", 2).await;
    let (succeeds, waits) = (plane.submitted("node-a").await, plane.submitted("node-a").await);
    assert_eq!(metrics(&plane).await[r#"fettle_tasks{status="ready"}"#], 2.0);
    let mut pull = host.pull(&[], 1).await;
    let lease = pull.lease().await;
    host.execute(&lease).await;
    assert_eq!(plane.get(&succeeds).await["status"], "succeeded");
    let canceled = plane.call(&plane.member, Method::POST, &format!("{waits}/cancel"), None).await;
    assert_eq!(canceled.0, StatusCode::OK, "{}", canceled.1);

    let numbers = metrics(&plane).await;
    let of = r#"operation_type="test.noop",org="default""#;
    for (name, expected) in [
        (format!("fettle_operations_requested_total{{{of}}}"), 2.0),
        (format!(r#"fettle_operations_ended_total{{{of},status="succeeded"}}"#), 1.0),
        (format!(r#"fettle_operations_ended_total{{{of},status="canceled"}}"#), 1.0),
        (r#"fettle_steps_ended_total{step_kind="test.noop@v1",status="succeeded"}"#.to_owned(), 2.0),
        (r#"fettle_step_duration_ms_sum{step_kind="test.noop@v1"}"#.to_owned(), 14.0),
        ("fettle_leases_given_total".to_owned(), 1.0),
        (r#"fettle_tasks{status="ready"}"#.to_owned(), 0.0),
        (r#"fettle_tasks{status="leased"}"#.to_owned(), 0.0),
        (r#"fettle_streams_open{stream="pull"}"#.to_owned(), 1.0),
        (
            r#"fettle_requests_total{method="POST",endpoint="/api/v1/projects/{project}/operations",status="201"}"#
                .to_owned(),
            2.0,
        ),
    ] {
        assert_eq!(numbers.get(&name), Some(&expected), "{name} in {numbers:#?}");
    }
    assert!(numbers[r#"fettle_store_write_duration_seconds_count{verb="create_operation"}"#] >= 2.0);
    assert!(numbers["fettle_store_commit_writes_count"] >= 2.0);
    let ids = [&succeeds, &waits].map(|path| path.rsplit('/').next().unwrap().to_owned());
    assert!(!numbers.keys().any(|name| ids.iter().any(|id| name.contains(id)) || name.contains(&host.id)));
}

#[tokio::test]
async fn a_failure_and_a_stale_report_are_counted_by_what_they_are() {
    let plane = measured().await;
    plane.with_definition().await;
    let mut host = plane.host("node-a", 1).await;
    plane.submitted("node-a").await;
    let mut pull = host.pull(&[], 1).await;
    let lease = pull.lease().await;
    host.ack(&lease).await.unwrap();
    let failure = json!({"class": "permanent", "code": "gpu.sick", "message": "the GPU is sick"});
    host.fail(&lease, failure, "first").await.unwrap();
    let mut reports = host.reports().await;
    reports.say(&lease, 1, &started("first", 1)).await;
    let numbers = metrics(&plane).await;
    assert_eq!(numbers[r#"fettle_operations_failed_total{operation_type="test.noop",error_code="gpu.sick"}"#], 1.0);
    assert_eq!(numbers[r#"fettle_stale_reports_total{call="report"}"#], 1.0, "{numbers:#?}");
    assert_eq!(numbers[r#"fettle_streams_open{stream="report"}"#], 1.0);
}

#[tokio::test]
async fn metrics_are_not_served_where_tenants_call() {
    let plane = measured().await;
    let (status, _) = plane.call(&plane.admin, Method::GET, "/metrics", None).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let unmeasured = self::plane().await;
    assert_eq!(unmeasured.running.metrics_address(), None);
    let address = plane.running.metrics_address().unwrap();
    let other = plane.http.get(format!("http://{address}/api/v1/nodes")).send().await.unwrap();
    assert_eq!(other.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_request_without_an_endpoint_or_with_a_made_up_method_adds_no_label() {
    let plane = measured().await;
    for number in 0..3 {
        plane.call(&plane.admin, Method::GET, &format!("/nowhere/{number}"), None).await;
        let method = Method::from_bytes(format!("MADEUP{number}").as_bytes()).unwrap();
        plane.call(&plane.admin, method, "/healthz", None).await;
    }
    let numbers = metrics(&plane).await;
    let counted = |part: &str| numbers.keys().filter(|name| name.contains(part)).count();
    assert_eq!((counted("nowhere"), counted("MADEUP")), (0, 0), "{numbers:#?}");
    assert_eq!(numbers[r#"fettle_requests_total{method="GET",endpoint="unknown",status="404"}"#], 3.0);
}

#[tokio::test]
async fn a_trace_goes_from_the_request_to_the_lease() {
    let plane = plane().await;
    plane.with_definition().await;
    let mut host = plane.host("node-a", 2).await;
    let submit = async |header: &str| {
        let url = plane.url("/api/v1/projects/demo/operations");
        let sent =
            plane.http.post(url).bearer_auth(&plane.member).header("traceparent", header).json(&request("node-a"));
        let answer = sent.send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::CREATED);
        answer.headers()["traceparent"].to_str().unwrap().to_owned()
    };
    let mut pull = host.pull(&[], 2).await;
    assert_eq!(submit(SENT).await, SENT, "nobody records spans here, so work goes on below the client's");
    let lease = pull.lease().await;
    assert_eq!((lease.traceparent.as_str(), lease.org_id.as_str()), (SENT, "default"));
    assert_eq!(host::task(&lease).trace_parent, None, "the task is as hosts of before know it");

    let made = submit("no trace parent").await;
    assert_eq!(pull.lease().await.traceparent, made);
    assert!(made.starts_with("00-") && made.len() == SENT.len() && made.ends_with("-00") && made[3..] != SENT[3..]);
}
