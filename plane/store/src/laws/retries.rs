//! Laws of further runs.

use std::collections::BTreeSet;

use fettle_model::{
    failure::FailureClass,
    operation::{OperationStatus, StepStatus},
    task::{StepEvent, TaskOutcome},
};
use serde_json::json;

use super::fixture::{
    all, at, create, failed, failure, key, lease, lease_some, logged, new_operation, new_run, node, on_nodes, report,
    running, show, started, step, submit, succeeded, when,
};
use crate::{
    Store, StoreError,
    node::Node,
    operation::{NewRun, Operation, TaskStatus},
    task::{Lease, Verdict},
};

/// The first step succeeds, the second one fails.
async fn fail_second(store: &dyn Store, node: &Node, lease: &Lease, class: FailureClass) {
    let events =
        [started("first"), succeeded("first", json!({"path": "x"})), started("second"), failed("second", class)];
    for (sequence, event) in (1..).zip(events) {
        report(store, key(node, lease), sequence, event).await;
    }
    let outcome = TaskOutcome::Failed { failure: failure(class), step_id: Some(step("second")) };
    store.finish_task(key(node, lease), outcome, when(20)).await.unwrap();
}

async fn retry(store: &dyn Store, operation: &Operation, run: NewRun) -> Result<Operation, StoreError> {
    store.retry_operation(&operation.project.project_id, operation.id, run, when(30)).await
}

async fn steps(store: &dyn Store, operation: &Operation) -> Vec<(StepStatus, u32)> {
    let steps = store.steps(operation.id).await.unwrap();
    steps.iter().map(|step| (step.state.status(), step.attempt)).collect()
}

/// And what it put out travels with the task.
pub async fn a_retry_keeps_what_succeeded(store: &dyn Store) {
    let (node, operation, given) = running(store).await;
    fail_second(store, &node, &given, FailureClass::Permanent).await;
    assert_eq!(show(store, &operation).await.state.status(), OperationStatus::Failed);
    let again = retry(store, &operation, new_run(1)).await.unwrap();
    assert_eq!((again.state.status(), again.run), (OperationStatus::Queued, 2));
    assert_eq!(steps(store, &operation).await, [(StepStatus::Succeeded, 1), (StepStatus::Pending, 1)]);
    let given = lease(store, &node, 31).await;
    assert_eq!(given.task.accepted.get(&step("first")), Some(&json!({"path": "x"})));
    assert_eq!(given.task.accepted.len(), 1);
    report(store, key(&node, &given), 1, started("second")).await;
    report(store, key(&node, &given), 2, succeeded("second", json!({}))).await;
    store.finish_task(key(&node, &given), TaskOutcome::Succeeded, when(32)).await.unwrap();
    let over = show(store, &operation).await;
    assert_eq!(over.state.status(), OperationStatus::Succeeded, "nothing of the first run's failure is left");
}

/// A profile says so.
pub async fn a_retry_runs_a_step_again_that_is_not_reusable(store: &dyn Store) {
    let (node, operation, given) = running(store).await;
    fail_second(store, &node, &given, FailureClass::Permanent).await;
    let run = NewRun { not_reusable: BTreeSet::from([step("first")]), ..new_run(1) };
    retry(store, &operation, run).await.unwrap();
    assert_eq!(steps(store, &operation).await, [(StepStatus::Pending, 1), (StepStatus::Pending, 1)]);
    assert!(lease(store, &node, 31).await.task.accepted.is_empty());
}

/// No number comes twice, whatever the host counts.
pub async fn attempts_are_numbered_across_runs(store: &dyn Store) {
    let (node, operation, given) = running(store).await;
    fail_second(store, &node, &given, FailureClass::Permanent).await;
    retry(store, &operation, new_run(1)).await.unwrap();
    let given = lease(store, &node, 31).await;
    report(store, key(&node, &given), 1, started("second")).await;
    report(store, key(&node, &given), 2, logged("second", &["again"])).await;
    assert_eq!(steps(store, &operation).await[1], (StepStatus::Running, 2));
    let lines = store.logs(operation.id, None, None, all()).await.unwrap();
    assert_eq!(lines.last().unwrap().attempt, 2);
    let outcome = StepEvent::Finished {
        step_id: step("second"),
        attempt: 3,
        result: fettle_model::operation::StepOutcome::Failed { failure: failure(FailureClass::Permanent) },
        duration_ms: 1,
        at: at(33).as_millisecond(),
    };
    report(store, key(&node, &given), 3, outcome).await;
    assert_eq!(steps(store, &operation).await[1], (StepStatus::Failed, 4));
}

async fn one_of_two_fails(store: &dyn Store) -> (Vec<Node>, Operation) {
    let nodes = vec![node(store, 1, 2).await, node(store, 2, 2).await];
    let operation = create(store, on_nodes(new_operation(1, &nodes[0], None), &nodes)).await;
    let (good, bad) = (lease(store, &nodes[0], 2).await, lease(store, &nodes[1], 2).await);
    fail_second(store, &nodes[1], &bad, FailureClass::Permanent).await;
    for (sequence, name) in [(1, "first"), (3, "second")] {
        report(store, key(&nodes[0], &good), sequence, started(name)).await;
        report(store, key(&nodes[0], &good), sequence + 1, succeeded(name, json!({}))).await;
    }
    store.finish_task(key(&nodes[0], &good), TaskOutcome::Succeeded, when(20)).await.unwrap();
    (nodes, operation)
}

/// Failed and not-started nodes only.
pub async fn a_retry_leaves_nodes_alone_that_succeeded(store: &dyn Store) {
    let (nodes, operation) = one_of_two_fails(store).await;
    assert_eq!(show(store, &operation).await.state.status(), OperationStatus::Failed);
    retry(store, &operation, new_run(1)).await.unwrap();
    assert!(lease_some(store, &nodes[0], 9, 31).await.is_empty());
    let given = lease(store, &nodes[1], 31).await;
    let tasks = store.node_tasks(operation.id, at(0)).await.unwrap();
    let tasks: Vec<_> = tasks.iter().map(|task| (task.run, task.status)).collect();
    assert_eq!(tasks, [(1, TaskStatus::Succeeded), (2, TaskStatus::Leased)]);
    report(store, key(&nodes[1], &given), 1, succeeded("second", json!({}))).await;
    store.finish_task(key(&nodes[1], &given), TaskOutcome::Succeeded, when(32)).await.unwrap();
    assert_eq!(show(store, &operation).await.state.status(), OperationStatus::Succeeded);
}

/// The operation has still failed when the others still have.
pub async fn a_retry_of_one_node_leaves_the_others_as_they_are(store: &dyn Store) {
    let nodes = vec![node(store, 1, 2).await, node(store, 2, 2).await];
    let operation = create(store, on_nodes(new_operation(1, &nodes[0], None), &nodes)).await;
    for node in &nodes {
        let given = lease(store, node, 2).await;
        fail_second(store, node, &given, FailureClass::Permanent).await;
    }
    let run = NewRun { nodes: Some(BTreeSet::from([nodes[1].id])), ..new_run(1) };
    retry(store, &operation, run).await.unwrap();
    assert!(lease_some(store, &nodes[0], 9, 31).await.is_empty());
    let given = lease(store, &nodes[1], 31).await;
    report(store, key(&nodes[1], &given), 1, succeeded("second", json!({}))).await;
    store.finish_task(key(&nodes[1], &given), TaskOutcome::Succeeded, when(32)).await.unwrap();
    assert_eq!(show(store, &operation).await.state.status(), OperationStatus::Failed);
    let succeeded = NewRun { nodes: Some(BTreeSet::from([nodes[1].id])), ..new_run(2) };
    let error = retry(store, &operation, succeeded).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { code: "operation.node_succeeded", .. }), "{error}");
}

/// It may have happened; only who accepts that runs it again.
pub async fn an_unknown_outcome_is_for_a_person(store: &dyn Store) {
    let (node, operation, given) = running(store).await;
    fail_second(store, &node, &given, FailureClass::Unknown).await;
    let error = retry(store, &operation, new_run(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { code: "operation.outcome_unknown", .. }), "{error}");
    assert!(error.to_string().contains("`second`"), "{error}");
    assert_eq!(show(store, &operation).await.state.status(), OperationStatus::Failed);
    retry(store, &operation, NewRun { accept_unknown: true, ..new_run(1) }).await.unwrap();
    assert_eq!(lease_some(store, &node, 9, 31).await.len(), 1);
}

/// There is nothing to start again.
pub async fn what_is_not_over_or_succeeded_is_not_retried(store: &dyn Store) {
    let (node, operation, given) = running(store).await;
    let error = retry(store, &operation, new_run(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { code: "operation.not_over", .. }), "{error}");
    for (sequence, name) in [(1, "first"), (2, "second")] {
        report(store, key(&node, &given), sequence, succeeded(name, json!({}))).await;
    }
    store.finish_task(key(&node, &given), TaskOutcome::Succeeded, when(20)).await.unwrap();
    let error = retry(store, &operation, new_run(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { code: "operation.succeeded", .. }), "{error}");
    let other = "other".parse().unwrap();
    let error = store.retry_operation(&other, operation.id, new_run(1), when(30)).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error}");
}

/// Somebody has changed their mind.
pub async fn what_was_canceled_is_retried(store: &dyn Store) {
    let node = node(store, 1, 1).await;
    let operation = submit(store, 1, &node).await;
    store.cancel_operation(&operation.project.project_id, operation.id, when(2)).await.unwrap();
    let again = retry(store, &operation, new_run(1)).await.unwrap();
    assert_eq!((again.state.status(), again.cancel_requested_at), (OperationStatus::Queued, None));
    assert_eq!(steps(store, &operation).await, [(StepStatus::Pending, 0), (StepStatus::Pending, 0)]);
    lease(store, &node, 31).await;
}

/// The task of the first run is over for good.
pub async fn a_report_of_an_earlier_run_changes_nothing(store: &dyn Store) {
    let (node, operation, given) = running(store).await;
    fail_second(store, &node, &given, FailureClass::Permanent).await;
    retry(store, &operation, new_run(1)).await.unwrap();
    let late = report(store, key(&node, &given), 9, succeeded("second", json!({"late": true}))).await;
    assert_eq!(late, Verdict::Stale);
    let verdict = store.finish_task(key(&node, &given), TaskOutcome::Succeeded, when(31)).await.unwrap();
    assert_eq!(verdict, Verdict::Stale);
    assert_eq!(show(store, &operation).await.state.status(), OperationStatus::Queued);
    assert_eq!(steps(store, &operation).await[1], (StepStatus::Pending, 1));
}
