//! Laws of denials: what a host refused its steps.

use fettle_model::{denial::TEXT_LIMIT, task::StepEvent};
use serde_json::json;

use super::fixture::{all, at, denied, key, report, running, started, succeeded, when};
use crate::{
    Store, StoreError,
    audit::{AuditRecord, STEP_DENIED},
    task::{Report, Verdict},
};

async fn rows(store: &dyn Store) -> Vec<AuditRecord> {
    let rows = store.audit(all()).await.unwrap();
    rows.into_iter().filter(|row| row.action == STEP_DENIED).collect()
}

/// One row per denied call, however often it is reported and under whichever lease.
pub async fn a_denied_call_is_audited_once(store: &dyn Store) {
    let (node, operation, first) = running(store).await;
    let lease = key(&node, &first);
    for _ in 0..3 {
        report(store, lease, 1, started("first")).await;
        assert_eq!(report(store, lease, 2, denied("first", 10, &[1, 2])).await, Verdict::Accepted);
    }
    // The answer was lost with the lease: the same report comes under the next one.
    store.expire_leases(when(99)).await.unwrap();
    let second = key(&node, &super::fixture::lease(store, &node, 100).await);
    assert_eq!(report(store, second, 2, denied("first", 10, &[1, 2])).await, Verdict::Accepted);
    assert_eq!(report(store, second, 3, denied("first", 11, &[3])).await, Verdict::Accepted);
    let rows = rows(store).await;
    assert_eq!(rows.len(), 3, "{rows:#?}");
    let row = &rows[0];
    assert_eq!((row.result.as_str(), row.correlation_id.as_str(), row.at), ("files.write", "law", at(20)));
    assert_eq!(row.resource_name, format!("projects/demo/operations/{}/steps/first", operation.id));
    let details = row.details.as_ref().unwrap();
    assert_eq!((&details["subject"], &details["attempt"]), (&json!("config/1"), &json!(1)));
    assert_eq!(details["at"], at(10).as_millisecond());
    assert!(details["component"].as_str().unwrap().starts_with("sha256:"));
    let calls = store.denied_calls(operation.id, all()).await.unwrap();
    assert_eq!(calls.iter().map(|(_, call)| call.denial.number).collect::<Vec<_>>(), [1, 2, 3]);
    let rest = store.denied_calls(operation.id, crate::page::Page { after: Some(calls[0].0), size: 1 }).await.unwrap();
    assert_eq!(rest, calls[1..2]);
}

/// A host that counts from one again loses no denial.
pub async fn a_denied_call_is_never_lost_to_wrong_counting(store: &dyn Store) {
    let (node, operation, lease) = running(store).await;
    let lease = key(&node, &lease);
    report(store, lease, 50, started("first")).await;
    report(store, lease, 1, denied("first", 10, &[1])).await;
    // The journal was lost, the attempt is the first one again, and its first denial is another one.
    report(store, lease, 1, denied("first", 12, &[1])).await;
    // It may also trail the result of its step.
    report(store, lease, 51, succeeded("first", json!({}))).await;
    report(store, lease, 52, denied("first", 10, &[2])).await;
    assert_eq!(store.denied_calls(operation.id, all()).await.unwrap().len(), 3);
}

/// One bad report does not take the others with it, and writes nothing.
pub async fn a_denied_call_of_an_unknown_step_is_refused_alone(store: &dyn Store) {
    let (node, operation, lease) = running(store).await;
    let lease = key(&node, &lease);
    let reports = vec![
        Report { lease, sequence: 1, event: denied("third", 10, &[1]) },
        Report { lease, sequence: 2, event: denied("first", 10, &[1]) },
    ];
    let verdicts = store.apply_reports(reports, when(20)).await.unwrap();
    assert!(matches!(verdicts[0], Err(StoreError::NotFound { .. })) && verdicts[1].is_ok());
    assert_eq!(store.denied_calls(operation.id, all()).await.unwrap().len(), 1);
}

/// What a node sends is bounded: in number, in length, in its characters.
pub async fn a_denied_call_is_small_whatever_a_node_says(store: &dyn Store) {
    let (node, operation, lease) = running(store).await;
    let numbers: Vec<u32> = (1..=100).collect();
    let mut event = denied("first", 10, &numbers);
    if let StepEvent::Denied { denials, .. } = &mut event {
        for denial in denials {
            denial.subject = "\u{1b}[2J ä\n".repeat(500);
            denial.allows = vec!["x".repeat(1_000); 30];
        }
    }
    report(store, key(&node, &lease), 1, event).await;
    let calls = store.denied_calls(operation.id, all()).await.unwrap();
    assert!(calls.len() <= 64, "{}", calls.len());
    let subject = &calls[0].1.denial.subject;
    assert!(subject.chars().count() <= TEXT_LIMIT + 1 && !subject.contains(char::is_control), "{subject}");
    assert!(serde_json::to_string(&calls[0].1).unwrap().len() < 5_000);
}
