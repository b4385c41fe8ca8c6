//! Tasks and the hosts that hold them.

use std::time::Duration;

use fettle_wire::node::{Lease, Verdict};
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::support::{
    host::{self, started, succeeded},
    plane, plane_with, within,
};

#[tokio::test]
async fn an_operation_runs_from_its_submission_to_its_end() {
    let plane = plane().await;
    plane.with_definition().await;
    let mut host = plane.host("node-a", 2).await;
    let mut pull = host.pull(&[], 2).await;
    let path = plane.submitted("node-a").await;
    let shown = plane.get(&path).await;
    assert_eq!((&shown["status"], &shown["steps"][0]["status"]), (&json!("queued"), &json!("pending")));

    let lease = pull.lease().await;
    let task = host::task(&lease);
    assert_eq!((lease.epoch, lease.lease_seconds), (1, 600));
    assert_eq!(json!(task.operation_id), shown["operation_id"]);
    assert_eq!(json!(task.plan_digest), shown["plan_digest"]);
    assert_eq!(json!(task.correlation_id), shown["correlation_id"]);
    assert_eq!((task.inputs, task.node_id.as_str()), (json!({"name": "llama", "count": 3}), host.id.as_str()));

    host.execute(&lease).await;
    let shown = plane.get(&path).await;
    assert_eq!(shown["status"], "succeeded", "{shown}");
    assert_eq!(shown["steps"][1]["output"], json!({"of": "second"}));
    assert_eq!((&shown["steps"][0]["attempt_number"], &shown["steps"][0]["duration_ms"]), (&json!(1), &json!(7)));
    assert!(shown["started_at"].is_string() && shown["finished_at"].is_string());
}

#[tokio::test]
async fn a_host_gets_as_many_tasks_as_it_has_free_slots() {
    let plane = plane().await;
    plane.with_definition().await;
    let mut host = plane.host("node-a", 2).await;
    let mut paths = Vec::new();
    for _ in 0..3 {
        paths.push(plane.submitted("node-a").await);
    }
    let mut pull = host.pull(&[], 1).await;
    let first = pull.lease().await;
    // It says that it could take two more, but it has two slots and one task.
    pull.free(2).await;
    let second = pull.lease().await;
    assert_ne!(first.task_id, second.task_id);
    host.execute(&first).await;
    pull.free(1).await;
    let third = pull.lease().await;
    host.execute(&second).await;
    host.execute(&third).await;
    for path in paths {
        assert_eq!(plane.get(&path).await["status"], "succeeded");
    }
}

#[tokio::test]
async fn an_expired_lease_is_leased_again_under_a_higher_epoch_with_what_was_accepted() {
    let plane = plane_with(|config| {
        config.lease_duration = Duration::from_millis(300);
        config.acknowledge_timeout = Duration::from_millis(300);
    })
    .await;
    plane.with_definition().await;
    let mut host = plane.host("node-a", 1).await;
    let mut pull = host.pull(&[], 1).await;
    let path = plane.submitted("node-a").await;
    let first = pull.lease().await;
    host.ack(&first).await.unwrap();
    let mut reports = host.reports().await;
    assert_eq!(reports.say(&first, 1, &started("first", 1)).await, Verdict::Accepted);
    assert_eq!(reports.say(&first, 2, &succeeded("first", json!({"done": true}))).await, Verdict::Accepted);
    // Silence: the lease runs out, and the same node is offered the task again.
    pull.free(1).await;
    let second = pull.lease().await;
    assert_eq!(second.task_id, first.task_id);
    assert!(second.epoch > first.epoch);
    assert_eq!(json!(host::task(&second).accepted), json!({"first": {"done": true}}));

    host.ack(&second).await.unwrap();
    assert_eq!(reports.say(&first, 3, &started("second", 1)).await, Verdict::Stale);
    assert_eq!(host.complete(&first, false).await.unwrap(), Verdict::Stale);
    assert_eq!(host.extend(&first).await.unwrap().verdict(), Verdict::Stale);
    assert!(host.ack(&first).await.unwrap_err().message().contains("[lease.stale]"));
    assert_eq!(plane.get(&path).await["status"], "running");
}

#[tokio::test]
async fn an_extended_lease_outlives_its_deadline() {
    let plane = plane_with(|config| config.lease_duration = Duration::from_millis(400)).await;
    plane.with_definition().await;
    let mut host = plane.host("node-a", 1).await;
    let mut pull = host.pull(&[], 1).await;
    plane.submitted("node-a").await;
    let lease = pull.lease().await;
    host.ack(&lease).await.unwrap();
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_millis(1200) {
        let extended = host.extend(&lease).await.unwrap();
        assert_eq!((extended.verdict(), extended.canceled), (Verdict::Accepted, false));
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_result_is_accepted_once() {
    let plane = plane().await;
    plane.with_definition().await;
    let mut host = plane.host("node-a", 1).await;
    let mut pull = host.pull(&[], 1).await;
    let path = plane.submitted("node-a").await;
    let lease = pull.lease().await;
    host.ack(&lease).await.unwrap();
    let mut reports = host.reports().await;
    reports.say(&lease, 1, &started("first", 1)).await;
    for (sequence, value) in [(2, "one"), (2, "two"), (3, "three")] {
        assert_eq!(reports.say(&lease, sequence, &succeeded("first", json!({"is": value}))).await, Verdict::Accepted);
    }
    assert_eq!(plane.get(&path).await["steps"][0]["output"], json!({"is": "one"}));
}

#[tokio::test]
async fn cancel_reaches_the_host_that_holds_the_task() {
    let plane = plane().await;
    plane.with_definition().await;
    let mut host = plane.host("node-a", 1).await;
    let mut pull = host.pull(&[], 1).await;
    let path = plane.submitted("node-a").await;
    let lease = pull.lease().await;
    host.ack(&lease).await.unwrap();
    assert!(host.complete(&lease, true).await.unwrap_err().message().contains("nobody asked to cancel"));
    let (status, shown) = plane.call(&plane.member, Method::POST, &format!("{path}/cancel"), None).await;
    assert_eq!((status, &shown["status"]), (StatusCode::OK, &json!("running")));
    assert_eq!(pull.cancel().await, lease.task_id);
    assert!(host.extend(&lease).await.unwrap().canceled);
    assert_eq!(host.complete(&lease, true).await.unwrap(), Verdict::Accepted);
    let shown = plane.get(&path).await;
    assert_eq!((&shown["status"], &shown["steps"][1]["status"]), (&json!("canceled"), &json!("canceled")));
}

#[tokio::test]
async fn a_cancel_waits_for_a_host_that_is_away() {
    let plane = plane().await;
    plane.with_definition().await;
    let mut host = plane.host("node-a", 1).await;
    let mut pull = host.pull(&[], 1).await;
    let path = plane.submitted("node-a").await;
    let lease = pull.lease().await;
    host.ack(&lease).await.unwrap();
    drop(pull);
    plane.call(&plane.member, Method::POST, &format!("{path}/cancel"), None).await;
    let mut pull = host.pull(&[&lease.task_id], 0).await;
    assert_eq!(pull.cancel().await, lease.task_id);
}

#[tokio::test]
async fn what_no_host_has_taken_is_canceled_at_once() {
    let plane = plane().await;
    plane.with_definition().await;
    let host = plane.host("node-a", 1).await;
    let path = plane.submitted(&host.id).await;
    let (status, shown) = plane.call(&plane.member, Method::POST, &format!("{path}/cancel"), None).await;
    assert_eq!((status, &shown["status"]), (StatusCode::OK, &json!("canceled")));
    let (again, _) = plane.call(&plane.member, Method::POST, &format!("{path}/cancel"), None).await;
    assert_eq!(again, StatusCode::OK);
}

#[tokio::test]
async fn a_failure_is_shown_with_its_step_and_what_it_kept_from_running() {
    let plane = plane().await;
    plane.with_definition().await;
    let mut host = plane.host("node-a", 1).await;
    let mut pull = host.pull(&[], 1).await;
    let path = plane.submitted("node-a").await;
    let lease = pull.lease().await;
    host.ack(&lease).await.unwrap();
    let failure = json!({"class": "denied", "code": "grant.missing", "message": "it wants more than it was granted"});
    assert_eq!(host.fail(&lease, failure.clone(), "first").await.unwrap(), Verdict::Accepted);
    assert_eq!(host.fail(&lease, failure.clone(), "first").await.unwrap(), Verdict::Accepted);
    let shown = plane.get(&path).await;
    assert_eq!((&shown["status"], &shown["failure"]), (&json!("failed"), &failure));
    assert_eq!((&shown["steps"][0]["status"], &shown["steps"][0]["failure"]), (&json!("failed"), &failure));
    assert_eq!((&shown["steps"][1]["status"], &shown["steps"][1]["because_of"]), (&json!("skipped"), &json!("first")));
    let (status, problem) = plane.call(&plane.member, Method::POST, &format!("{path}/cancel"), None).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("operation.is_over")));
}

#[tokio::test]
async fn a_reconnecting_host_keeps_what_it_holds_and_gets_back_what_it_lost() {
    let plane = plane().await;
    plane.with_definition().await;
    let mut host = plane.host("node-a", 2).await;
    let mut pull = host.pull(&[], 2).await;
    plane.submitted("node-a").await;
    plane.submitted("node-a").await;
    let kept = pull.lease().await;
    let lost = pull.lease().await;
    host.ack(&kept).await.unwrap();
    let mut again = host.pull(&[&kept.task_id], 1).await;
    let second = again.lease().await;
    assert_eq!((&second.task_id, second.epoch), (&lost.task_id, lost.epoch + 1));
    assert!(host.ack(&lost).await.is_err());
    host.execute(&kept).await;
    // The stream before is over: a node has one.
    assert_eq!(pull.next().await.unwrap_err().code(), tonic::Code::Unavailable);
}

#[tokio::test]
async fn a_plane_that_was_away_lets_its_hosts_go_on() {
    let plane = plane_with(|config| config.lease_duration = Duration::from_secs(2)).await;
    plane.with_definition().await;
    let mut host = plane.host("node-a", 1).await;
    let mut pull = host.pull(&[], 1).await;
    let path = plane.submitted("node-a").await;
    let lease = pull.lease().await;
    host.ack(&lease).await.unwrap();
    let plane = within(plane.restart_after(Duration::from_millis(2_100))).await;
    let mut host = host.reconnect(&plane.running);
    let _pull = host.pull(&[&lease.task_id], 0).await;
    host.execute(&lease).await;
    assert_eq!(plane.get(&path).await["status"], "succeeded");
}

#[tokio::test]
async fn an_event_that_makes_no_sense_is_refused_with_a_reason_and_the_stream_goes_on() {
    let plane = plane().await;
    plane.with_definition().await;
    let mut host = plane.host("node-a", 1).await;
    let mut pull = host.pull(&[], 1).await;
    plane.submitted("node-a").await;
    let lease = pull.lease().await;
    host.ack(&lease).await.unwrap();
    let mut reports = host.reports().await;
    assert_eq!(reports.say(&lease, 1, &started("third", 1)).await, Verdict::Refused);
    assert!(reports.reason.contains("third"), "{}", reports.reason);
    // It is the stream of all tasks of the node.
    let unknown = Lease { task_id: "01K00000000000000000000001".to_owned(), ..lease.clone() };
    assert_ne!(reports.say(&unknown, 1, &started("first", 1)).await, Verdict::Accepted);
    assert_eq!(reports.say(&lease, 1, &started("first", 1)).await, Verdict::Accepted);
    assert_eq!(reports.reason, "");
}

#[tokio::test]
async fn success_needs_every_step() {
    let plane = plane().await;
    plane.with_definition().await;
    let mut host = plane.host("node-a", 1).await;
    let mut pull = host.pull(&[], 1).await;
    plane.submitted("node-a").await;
    let lease = pull.lease().await;
    host.ack(&lease).await.unwrap();
    let refused = host.complete(&lease, false).await.unwrap_err();
    assert!(refused.message().contains("step `first` is pending"), "{refused}");
}
