//! Laws of retention: what is over goes, what is not stays, and the audit trail stays whole.

use fettle_model::{failure::FailureClass, task::TaskOutcome};
use serde_json::json;

use super::fixture::{
    acknowledge, all, at, failed, failure, key, lease, logged, node, report, submit, succeeded, when,
};
use crate::{
    Store,
    context::{Actor, Context},
    id::OperationId,
    log::SegmentBounds,
    operation::Operation,
    retention::Ended,
    webhook::Claim,
};

fn later(seconds: i64) -> Context {
    Context { actor: Actor::Plane, ..when(seconds) }
}

/// Operations that succeeded at 30, failed at 40, and one that waits.
async fn three(store: &dyn Store) -> (Operation, Operation, Operation) {
    let node = node(store, 1, 4).await;
    let good = submit(store, 1, &node).await;
    let held = lease(store, &node, 5).await;
    acknowledge(store, &node, &held, 6).await;
    let held = key(&node, &held);
    report(store, held, 1, logged("first", &["a", "b"])).await;
    report(store, held, 2, succeeded("first", json!({}))).await;
    report(store, held, 3, succeeded("second", json!({}))).await;
    store.finish_task(held, TaskOutcome::Succeeded, when(30)).await.unwrap();
    let bad = submit(store, 2, &node).await;
    let held = lease(store, &node, 31).await;
    acknowledge(store, &node, &held, 32).await;
    let held = key(&node, &held);
    report(store, held, 1, logged("first", &["c"])).await;
    report(store, held, 2, failed("first", FailureClass::Permanent)).await;
    let outcome =
        TaskOutcome::Failed { failure: failure(FailureClass::Permanent), step_id: Some(super::fixture::step("first")) };
    store.finish_task(held, outcome, when(40)).await.unwrap();
    let waits = submit(store, 3, &node).await;
    (good, bad, waits)
}

async fn ended(store: &dyn Store, failed: bool, before: i64) -> Vec<OperationId> {
    let found = store.ended_operations(failed, at(before), None, 10).await.unwrap();
    found.into_iter().map(|one| one.operation).collect()
}

/// Failures and the rest are told apart, by when they ended, in pages.
pub async fn what_is_over_is_found_by_its_end(store: &dyn Store) {
    let (good, bad, _) = three(store).await;
    assert_eq!(ended(store, false, 29).await, []);
    assert_eq!(ended(store, false, 30).await, [good.id]);
    assert_eq!(ended(store, false, 999).await, [good.id]);
    assert_eq!(ended(store, true, 39).await, []);
    assert_eq!(ended(store, true, 999).await, [bad.id]);
    let after = Ended { operation: bad.id, at: at(40) };
    assert_eq!(store.ended_operations(true, at(999), Some(after), 10).await.unwrap(), []);
}

/// Logs and events go in small batches, wherever the lines are.
pub async fn logs_and_events_go_in_batches(store: &dyn Store) {
    let (good, bad, _) = three(store).await;
    store.close_log_segment(good.id, SegmentBounds { lines: 1, ..SegmentBounds::default() }).await.unwrap();
    let both = || vec![good.id, bad.id];
    let mut removed = Vec::new();
    while removed.last() != Some(&0) {
        removed.push(store.remove_logs(both(), 1).await.unwrap());
    }
    assert!(removed.iter().all(|count| *count <= 2), "{removed:?}");
    assert!(store.logs(good.id, None, None, all()).await.unwrap().is_empty());
    assert!(store.logs(bad.id, None, None, all()).await.unwrap().is_empty());
    assert_eq!(store.remove_events(vec![good.id], 3).await.unwrap(), 3);
    assert_eq!(store.events(good.id, all()).await.unwrap().len(), 1);
    assert!(store.remove_events(vec![good.id], 100).await.unwrap() > 0);
    assert!(!store.events(bad.id, all()).await.unwrap().is_empty());
    assert!(store.newest_event().await.unwrap() > 0);
}

/// An operation goes with all that is of it, and its audit rows stay.
pub async fn an_operation_goes_whole_and_its_audit_rows_stay(store: &dyn Store) {
    let (good, bad, waits) = three(store).await;
    let audited = store.audit(all()).await.unwrap();
    let all_three = vec![good.id, bad.id, waits.id];
    assert_eq!(store.remove_operations(all_three.clone(), at(30)).await.unwrap(), 1);
    let there = async |operation: &Operation| {
        store.operation(&operation.project.project_id, operation.id).await.unwrap().is_some()
    };
    assert!(!there(&good).await && there(&bad).await && there(&waits).await);
    assert!(store.steps(good.id).await.unwrap().is_empty());
    assert!(store.events(good.id, all()).await.unwrap().is_empty());
    assert!(store.logs(good.id, None, None, all()).await.unwrap().is_empty());
    assert_eq!(store.remove_operations(all_three, at(9999)).await.unwrap(), 1, "what waits is not over");
    assert!(there(&waits).await);
    assert_eq!(store.audit(all()).await.unwrap(), audited);
}

/// One plane does a chore at a time.
pub async fn a_chore_is_one_planes(store: &dyn Store) {
    let claim = |owner: &str, until| Claim { owner: owner.to_owned(), until: at(until) };
    assert!(store.claim_chore("upkeep", claim("a", 20), later(10)).await.unwrap());
    assert!(!store.claim_chore("upkeep", claim("b", 30), later(19)).await.unwrap());
    assert!(store.claim_chore("upkeep", claim("a", 29), later(19)).await.unwrap());
    assert!(store.claim_chore("other", claim("b", 30), later(19)).await.unwrap());
    assert!(store.claim_chore("upkeep", claim("b", 40), later(29)).await.unwrap());
}
