//! Asking nodes what became of a step, and taking a person's word for it.

use fettle_model::{
    settlement::{Finding, Interruption, Settlement},
    task::StepEvent,
};
use fettle_plane::administration::ProjectRole;
use fettle_wire::node::{Lease, Verdict};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{
    TestPlane,
    host::{self, FakeHost, Pull},
    in_project, plane, plane_with, pointers, within,
};

fn settled(name: &str, finding: Finding) -> StepEvent {
    let settlement = Settlement {
        cause: Interruption::Inquiry,
        finding,
        needs_person: finding == Finding::Unknown,
        probes: 1,
        decided_by: None,
        message: "the probe was asked".to_owned(),
    };
    StepEvent::Settled { step_id: name.parse().unwrap(), attempt: 2, settlement }
}

/// An operation whose first step may have happened: its path, and the token of an administrator of the project.
async fn in_question(plane: &TestPlane) -> (FakeHost, Pull, Lease, String, String) {
    plane.with_definition().await;
    let mut host = plane.host("node-a", 1).await;
    let mut pull = host.pull(&[], 1).await;
    let path = plane.submitted("node-a").await;
    let lease = pull.lease().await;
    host.ack(&lease).await.unwrap();
    let mut reports = host.reports().await;
    reports.say(&lease, 1, &host::started("first", 1)).await;
    let failure = json!({ "class": "unknown", "code": "step.interrupted", "message": "nobody knows" });
    host.fail(&lease, failure, "first").await.unwrap();
    let admin = plane.token("boss", in_project("demo", ProjectRole::Admin)).await;
    (host, pull, lease, path, admin)
}

#[tokio::test]
async fn a_node_is_asked_and_only_the_host_that_was_asked_can_answer() {
    let plane = plane().await;
    let (mut host, mut pull, old, path, admin) = in_question(&plane).await;
    let force_probe = format!("{path}/force-probe");
    assert_eq!(plane.call(&plane.member, Method::POST, &force_probe, None).await.0, StatusCode::FORBIDDEN);
    let wrong = json!({ "nodes": ["node-z"] });
    let (status, problem) = plane.call(&admin, Method::POST, &force_probe, Some(wrong)).await;
    assert_eq!((status, pointers(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, vec!["/nodes/0"]));
    let (status, shown) = plane.call(&admin, Method::POST, &force_probe, None).await;
    assert_eq!((status, &shown["status"], &shown["run"]), (StatusCode::OK, &json!("queued"), &json!(2)), "{shown}");
    assert_eq!(shown["steps"][0]["settlement"]["needs_person"], true, "{shown}");
    let (status, problem) = plane.call(&admin, Method::POST, &force_probe, None).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("operation.not_over")));
    pull.free(1).await;
    let asked = pull.lease().await;
    assert_eq!(host::task(&asked).inquire.iter().map(ToString::to_string).collect::<Vec<_>>(), ["first"]);
    host.ack(&asked).await.unwrap();
    let mut reports = host.reports().await;
    // The same host under the lease of the first run, and one that made its epoch up.
    assert_eq!(reports.say(&old, 9, &settled("first", Finding::Finished)).await, Verdict::Stale);
    let made_up = Lease { epoch: asked.epoch + 1, ..asked.clone() };
    assert_eq!(reports.say(&made_up, 1, &settled("first", Finding::Finished)).await, Verdict::Stale);
    assert_eq!(plane.get(&path).await["steps"][0]["settlement"]["finding"], "unknown");
    assert_eq!(reports.say(&asked, 1, &settled("first", Finding::Finished)).await, Verdict::Accepted);
    reports.say(&asked, 2, &host::succeeded("first", json!({}))).await;
    let failure = json!({ "class": "permanent", "code": "operation.unfinished", "message": "more is to be done" });
    host.fail(&asked, failure, "").await.unwrap();
    let shown = plane.get(&path).await;
    let first = &shown["steps"][0];
    assert_eq!(
        (&first["status"], &first["settlement"]["finding"]),
        (&json!("succeeded"), &json!("finished")),
        "{shown}"
    );
    let (status, problem) = plane.call(&admin, Method::POST, &force_probe, None).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("operation.nothing_in_question")));
    let events = plane.get(&format!("{path}/events")).await;
    let requested = |event: &&Value| event["event"] == "operation.requested" && event["payload"]["inquiry"] == true;
    assert_eq!(events["items"].as_array().unwrap().iter().filter(requested).count(), 1, "{events}");
}

#[tokio::test]
async fn a_person_decides_about_what_is_in_question_and_about_nothing_else() {
    let plane = plane().await;
    let (_host, mut pull, _lease, path, admin) = in_question(&plane).await;
    let recover = format!("{path}/recover");
    let said = |step: &str, outcome: &str| json!({ "step_id": step, "outcome": outcome });
    let (status, _) = plane.call(&plane.member, Method::POST, &recover, Some(said("first", "done"))).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let (status, problem) = plane.call(&admin, Method::POST, &recover, Some(said("first", "perhaps"))).await;
    assert_eq!((status, pointers(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, vec!["/outcome"]), "{problem}");
    let (status, problem) = plane.call(&admin, Method::POST, &recover, Some(said("second", "done"))).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("step.not_in_question")), "{problem}");
    let (status, problem) = plane.call(&admin, Method::POST, &recover, Some(said("ninth", "done"))).await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{problem}");
    let (status, shown) = plane.call(&admin, Method::POST, &recover, Some(said("first", "not_done"))).await;
    assert_eq!((status, &shown["status"]), (StatusCode::OK, &json!("queued")), "{shown}");
    pull.free(1).await;
    let again = pull.lease().await;
    assert!(host::task(&again).inquire.is_empty() && host::task(&again).accepted.is_empty());
    let audit = plane.administration().await.audit(None).await.unwrap();
    assert!(audit.iter().any(|row| row.action == "operation.recover" && row.result == "ok"));
}

#[tokio::test]
async fn a_task_that_its_node_loses_again_and_again_fails() {
    let plane = plane_with(|config| config.most_leases = 2).await;
    plane.with_definition().await;
    let mut host = plane.host("node-a", 1).await;
    let path = plane.submitted("node-a").await;
    for _ in 0..2 {
        // It takes the lease, ends before it has written it down, and comes back without it.
        let mut pull = host.pull(&[], 1).await;
        within(pull.lease()).await;
        drop(pull);
    }
    let _pull = host.pull(&[], 1).await;
    let mut events = plane.follow(&format!("{path}/events?follow=true"), None).await;
    while let Some(event) = events.next().await {
        if event.event == "operation.failed" {
            break;
        }
    }
    let shown = plane.get(&path).await;
    assert_eq!(shown["failure"]["code"], "task.leases_exhausted", "{shown}");
}
