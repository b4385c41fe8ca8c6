//! Laws of steps whose end nobody saw, and of tasks that are leased in vain.

use fettle_model::{
    failure::FailureClass,
    operation::{OperationStatus, StepOutcome, StepStatus},
    settlement::{Finding, Interruption, NOT_DONE, Settlement},
    task::{StepEvent, TaskOutcome},
};
use serde_json::{Value, json};

use super::fixture::{
    acknowledge, all, at, failed, failure, key, lease, lease_some, new_run, node, report, running, show, started, step,
    submit, succeeded, when,
};
use crate::{
    Store, StoreError,
    node::Node,
    operation::{Decision, Ending, NewInquiry, Operation, OperationState, Step},
    task::{Lease, Verdict},
};

fn settled(name: &str, finding: Finding, needs_person: bool) -> StepEvent {
    let settlement = Settlement {
        cause: Interruption::HostStopped,
        finding,
        needs_person,
        probes: 3,
        decided_by: None,
        message: "it was looked at".to_owned(),
    };
    StepEvent::Settled { step_id: step(name), attempt: 2, settlement }
}

fn asking(number: u128) -> NewInquiry {
    NewInquiry { task_ids: new_run(number).task_ids, nodes: None }
}

fn decision(name: &str, happened: Option<Value>) -> Decision {
    Decision { node_id: None, step_id: step(name), happened }
}

async fn steps(store: &dyn Store, operation: &Operation) -> Vec<Step> {
    store.steps(operation.id).await.unwrap()
}

async fn inquire(store: &dyn Store, operation: &Operation, number: u128) -> Result<Operation, StoreError> {
    store.inquire(&operation.project.project_id, operation.id, asking(number), when(30)).await
}

/// The first step succeeded; of the second nobody knows whether it happened.
async fn in_question(store: &dyn Store) -> (Node, Operation, Lease) {
    let (node, operation, given) = running(store).await;
    let events = [
        started("first"),
        succeeded("first", json!({"path": "x"})),
        started("second"),
        settled("second", Finding::Unknown, true),
        failed("second", FailureClass::Unknown),
    ];
    for (sequence, event) in (1..).zip(events) {
        report(store, key(&node, &given), sequence, event).await;
    }
    let outcome = TaskOutcome::Failed { failure: failure(FailureClass::Unknown), step_id: Some(step("second")) };
    store.finish_task(key(&node, &given), outcome, when(20)).await.unwrap();
    (node, operation, given)
}

fn code(error: &StoreError) -> &str {
    if let StoreError::Conflict { code, .. } = error { code } else { "no conflict" }
}

/// In the step, and in an event.
pub async fn what_was_found_out_is_kept_and_told(store: &dyn Store) {
    let (node, operation, given) = running(store).await;
    report(store, key(&node, &given), 1, started("first")).await;
    assert_eq!(
        report(store, key(&node, &given), 2, settled("first", Finding::Finished, false)).await,
        Verdict::Accepted
    );
    let found = steps(store, &operation).await;
    assert_eq!(found[0].settlement.as_ref().map(|found| found.finding), Some(Finding::Finished));
    assert_eq!(found[0].state.status(), StepStatus::Running, "it says nothing of how far the step is");
    let events = store.events(operation.id, all()).await.unwrap();
    let told = &events.last().unwrap().payload;
    assert_eq!((&told["settlement"]["probes"], &told["step_status"]), (&json!(3), &json!("running")));
    // What was undone is told after the step is over.
    report(store, key(&node, &given), 3, succeeded("first", json!({}))).await;
    report(store, key(&node, &given), 4, settled("first", Finding::Undone, false)).await;
    let found = steps(store, &operation).await;
    assert_eq!(found[0].settlement.as_ref().map(|found| found.finding), Some(Finding::Undone));
    assert_eq!(found[0].state.status(), StepStatus::Succeeded);
}

/// And what its probe proves done has succeeded.
pub async fn an_inquiry_asks_only_what_is_in_question(store: &dyn Store) {
    let (node, operation, old) = in_question(store).await;
    let asked = inquire(store, &operation, 1).await.unwrap();
    assert_eq!((asked.state.status(), asked.run), (OperationStatus::Queued, 2));
    let given = lease(store, &node, 31).await;
    assert_eq!(given.task.inquire.iter().collect::<Vec<_>>(), [&step("second")]);
    assert_eq!(given.task.accepted.len(), 1);
    // A host of the earlier run cannot answer.
    let stale = report(store, key(&node, &old), 9, settled("second", Finding::Finished, false)).await;
    assert_eq!(stale, Verdict::Stale);
    assert_eq!(report(store, key(&node, &old), 10, succeeded("second", json!({}))).await, Verdict::Stale);
    report(store, key(&node, &given), 1, started("second")).await;
    report(store, key(&node, &given), 2, settled("second", Finding::Finished, false)).await;
    report(store, key(&node, &given), 3, succeeded("second", json!({}))).await;
    store.finish_task(key(&node, &given), TaskOutcome::Succeeded, when(32)).await.unwrap();
    assert_eq!(show(store, &operation).await.state.status(), OperationStatus::Succeeded);
}

/// Nothing is run again for that.
pub async fn an_inquiry_that_proves_nothing_leaves_it_in_question(store: &dyn Store) {
    let (node, operation, _) = in_question(store).await;
    inquire(store, &operation, 1).await.unwrap();
    let given = lease(store, &node, 31).await;
    assert_eq!(acknowledge(store, &node, &given, 31).await, Verdict::Accepted);
    let error = inquire(store, &operation, 2).await.unwrap_err();
    assert_eq!(code(&error), "operation.not_over", "{error}");
    // Its node is never heard of again.
    store.bound_leases(1);
    store.expire_leases(when(99)).await.unwrap();
    store.bound_leases(crate::task::MOST_LEASES);
    let over = show(store, &operation).await;
    assert_eq!(over.state.status(), OperationStatus::Failed);
    let again = store.retry_operation(&operation.project.project_id, operation.id, new_run(3), when(100)).await;
    let error = again.unwrap_err();
    assert_eq!(code(&error), "operation.outcome_unknown", "{error}");
    inquire(store, &operation, 4).await.unwrap();
    let given = lease(store, &node, 101).await;
    report(store, key(&node, &given), 1, started("second")).await;
    report(store, key(&node, &given), 2, settled("second", Finding::NotDone, false)).await;
    report(store, key(&node, &given), 3, failed("second", FailureClass::Permanent)).await;
    let outcome = TaskOutcome::Failed { failure: failure(FailureClass::Permanent), step_id: Some(step("second")) };
    store.finish_task(key(&node, &given), outcome, when(102)).await.unwrap();
    let error = inquire(store, &operation, 5).await.unwrap_err();
    assert_eq!(code(&error), "operation.nothing_in_question", "{error}");
    store.retry_operation(&operation.project.project_id, operation.id, new_run(6), when(103)).await.unwrap();
    assert!(lease(store, &node, 104).await.task.inquire.is_empty());
}

/// It happened: the step has succeeded, and the operation with it when that was all.
pub async fn a_persons_word_decides(store: &dyn Store) {
    let (node, operation, _) = in_question(store).await;
    let project = &operation.project.project_id;
    let decide = async |decision, run| store.decide(project, operation.id, decision, run, when(40)).await;
    let error = decide(decision("first", None), None).await.unwrap_err();
    assert_eq!(code(&error), "step.not_in_question", "{error}");
    let error = decide(decision("third", None), None).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error}");
    let other = Decision { node_id: Some(super::fixture::joining(7, "node-7", 1).id), ..decision("second", None) };
    assert!(matches!(decide(other, None).await.unwrap_err(), StoreError::NotFound { .. }));
    let decided = decide(decision("second", Some(json!({"is": 1}))), Some(new_run(1))).await.unwrap();
    assert_eq!(decided.state.status(), OperationStatus::Succeeded);
    let found = steps(store, &operation).await;
    let settlement = found[1].settlement.clone().unwrap();
    assert_eq!((settlement.finding, settlement.decided_by.is_some()), (Finding::Finished, true));
    assert!(lease_some(store, &node, 9, 41).await.is_empty(), "nothing is left to do");
    let audit = store.audit(all()).await.unwrap();
    let row = audit.iter().rfind(|row| row.action == "operation.recover").unwrap();
    assert_eq!(
        row.details,
        Some(json!({"step_id": "second", "node_id": node.id, "happened": true, "continues": true}))
    );
    let error = decide(decision("second", None), None).await.unwrap_err();
    assert_eq!(code(&error), "operation.succeeded", "{error}");
}

/// It did not happen: the step has failed, and may run again.
pub async fn what_a_person_says_did_not_happen_may_run_again(store: &dyn Store) {
    let (node, operation, _) = in_question(store).await;
    let project = &operation.project.project_id;
    let stopped = store.decide(project, operation.id, decision("second", None), None, when(40)).await.unwrap();
    let OperationState::Over { ending: Ending::Failed(failure), .. } = &stopped.state else { panic!("{stopped:?}") };
    assert_eq!(failure.code, NOT_DONE);
    assert!(lease_some(store, &node, 9, 41).await.is_empty(), "it was to stay as it is");
    store.retry_operation(project, operation.id, new_run(1), when(42)).await.unwrap();
    let given = lease(store, &node, 43).await;
    assert_eq!((given.task.accepted.len(), given.task.inquire.len()), (1, 0));
    let found = steps(store, &operation).await;
    assert_eq!((found[1].state.status(), found[1].settlement.is_none()), (StepStatus::Pending, true));
}

/// The node took it and never said how it ended.
pub async fn what_ran_on_a_node_that_was_not_heard_of_again_is_in_question(store: &dyn Store) {
    let (node, operation, given) = running(store).await;
    report(store, key(&node, &given), 1, started("first")).await;
    let project = &operation.project.project_id;
    store.cancel_operation(project, operation.id, when(21)).await.unwrap();
    store.expire_leases(when(99)).await.unwrap();
    assert_eq!(show(store, &operation).await.state.status(), OperationStatus::Canceled);
    let found = steps(store, &operation).await;
    assert!(found[0].settlement.as_ref().is_some_and(|found| found.needs_person), "{found:#?}");
    assert!(found[1].settlement.is_none(), "it never started");
    let error = store.retry_operation(project, operation.id, new_run(1), when(100)).await.unwrap_err();
    assert_eq!(code(&error), "operation.outcome_unknown", "{error}");
    // What was canceled stays so while nothing else is proven.
    inquire(store, &operation, 2).await.unwrap();
    let given = lease(store, &node, 101).await;
    let outcome = TaskOutcome::Failed { failure: failure(FailureClass::Unknown), step_id: None };
    store.finish_task(key(&node, &given), outcome, when(102)).await.unwrap();
    assert_eq!(show(store, &operation).await.state.status(), OperationStatus::Canceled);
}

/// Each time its node lost it.
pub async fn a_task_is_leased_only_so_often(store: &dyn Store) {
    let node = node(store, 1, 1).await;
    let operation = submit(store, 1, &node).await;
    store.bound_leases(3);
    for round in 1..=2 {
        lease(store, &node, round * 100).await;
        store.expire_leases(when(round * 100 + 50)).await.unwrap();
    }
    assert_eq!(show(store, &operation).await.state.status(), OperationStatus::Queued);
    lease(store, &node, 300).await;
    // A host that comes back without the task has lost it as well.
    store.resume_leases(node.id, Vec::new(), at(400), when(301)).await.unwrap();
    assert!(lease_some(store, &node, 9, 302).await.is_empty());
    let over = show(store, &operation).await;
    let OperationState::Over { ending: Ending::Failed(failure), .. } = &over.state else { panic!("{over:?}") };
    assert_eq!(failure.code, "task.leases_exhausted");
    assert!(failure.message.contains("3 times"), "{}", failure.message);
    let skipped = steps(store, &operation).await;
    assert!(matches!(
        &skipped[0].state,
        crate::operation::StepState::Over { outcome: StepOutcome::Skipped { .. }, .. }
    ));
}

/// A plane or a network that was away for a while costs a task nothing.
pub async fn a_lease_that_is_held_again_does_not_count(store: &dyn Store) {
    let (node, operation, given) = running(store).await;
    store.bound_leases(2);
    for round in 1..=5 {
        assert_eq!(store.expire_leases(when(round * 1000)).await.unwrap(), 1);
        let held = store.extend_lease(key(&node, &given), at(round * 1000 + 30), when(round * 1000 + 1)).await.unwrap();
        assert_eq!(held.verdict, Verdict::Accepted);
    }
    assert_eq!(show(store, &operation).await.state.status(), OperationStatus::Running);
}
