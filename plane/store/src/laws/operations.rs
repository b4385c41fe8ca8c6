//! Laws of operations.

use fettle_model::{digest::Digest, operation::OperationStatus, operation::StepStatus, task::TaskOutcome};
use futures::future::join_all;

use super::fixture::{all, key, new_operation, node, project, report, running, show, started, submit, succeeded, when};
use crate::{
    Store, StoreError,
    event::EventKind,
    id::OperationId,
    operation::{Created, NewOperation},
    page::Page,
};

/// Operation, steps, task, event and audit row are there together.
pub async fn creating_writes_everything_at_once(store: &dyn Store) {
    let node = node(store, 1, 1).await;
    let operation = submit(store, 1, &node).await;
    assert_eq!(show(store, &operation).await, operation);
    assert_eq!(operation.state.status(), OperationStatus::Queued);
    let steps = store.steps(operation.id).await.unwrap();
    let names: Vec<_> = steps.iter().map(|step| (step.index, step.id.as_str(), step.state.status())).collect();
    assert_eq!(names, [(0, "first", StepStatus::Pending), (1, "second", StepStatus::Pending)]);
    assert!(steps[1].needs.contains(&steps[0].id));
    let events = store.events(operation.id, all()).await.unwrap();
    assert_eq!(events.iter().map(|event| event.kind).collect::<Vec<_>>(), [EventKind::Requested]);
    assert_eq!(events[0].payload["correlation_id"], "law");
    assert_eq!(super::fixture::lease_some(store, &node, 9, 2).await.len(), 1);
}

/// A repeated request is the same request.
pub async fn a_key_makes_one_operation(store: &dyn Store) {
    let node = node(store, 1, 1).await;
    store.ensure_project(project("demo"), when(1)).await.unwrap();
    let first = store.create_operation(new_operation(1, &node, Some("k")), when(1)).await.unwrap();
    let Created::New(first) = first else { panic!("it was there already") };
    let again = store.create_operation(new_operation(2, &node, Some("k")), when(2)).await.unwrap();
    assert_eq!(again, Created::Repeated(first.clone()));
    let name = project("demo").project_id;
    assert_eq!(store.operation_by_key(&name, "k").await.unwrap(), Some(first));
    assert_eq!(store.operations(&name, None, all()).await.unwrap().len(), 1);
}

/// A key does not hide a different request.
pub async fn a_key_with_another_request_is_refused(store: &dyn Store) {
    let node = node(store, 1, 1).await;
    store.ensure_project(project("demo"), when(1)).await.unwrap();
    store.create_operation(new_operation(1, &node, Some("k")), when(1)).await.unwrap();
    let other = NewOperation { request_digest: Digest::of(b"other"), ..new_operation(2, &node, Some("k")) };
    let error = store.create_operation(other, when(2)).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { code: "operation.key_reused", .. }), "{error}");
}

/// However many ask at the same time.
pub async fn the_same_key_at_once_makes_one_operation(store: &dyn Store) {
    let node = node(store, 1, 1).await;
    store.ensure_project(project("demo"), when(1)).await.unwrap();
    let asked = (0..100).map(|number| store.create_operation(new_operation(number, &node, Some("k")), when(1)));
    let answers = join_all(asked).await;
    let new = answers.iter().filter(|answer| matches!(answer, Ok(Created::New(_)))).count();
    let repeated = answers.iter().filter(|answer| matches!(answer, Ok(Created::Repeated(_)))).count();
    assert_eq!((new, repeated), (1, 99));
}

/// Newest first, and every one exactly once.
pub async fn lists_are_paged(store: &dyn Store) {
    let node = node(store, 1, 1).await;
    for number in 1..=5 {
        submit(store, number, &node).await;
    }
    let name = project("demo").project_id;
    let (mut after, mut seen): (Option<OperationId>, Vec<OperationId>) = (None, Vec::new());
    loop {
        let page = store.operations(&name, None, Page { after, size: 2 }).await.unwrap();
        seen.extend(page.iter().map(|operation| operation.id));
        match page.last() {
            Some(last) => after = Some(last.id),
            None => break,
        }
    }
    assert_eq!(seen.len(), 5);
    assert!(seen.is_sorted_by(|newer, older| newer > older));
    let none = store.operations(&name, Some(OperationStatus::Running), all()).await.unwrap();
    assert!(none.is_empty());
}

/// Nobody has to be asked.
pub async fn canceling_what_no_node_has_taken_ends_it(store: &dyn Store) {
    let node = node(store, 1, 1).await;
    let operation = submit(store, 1, &node).await;
    let name = &operation.project.project_id;
    let canceled = store.cancel_operation(name, operation.id, when(2)).await.unwrap();
    assert_eq!(canceled.state.status(), OperationStatus::Canceled);
    assert_eq!(store.cancel_operation(name, operation.id, when(3)).await.unwrap(), canceled);
    let steps = store.steps(operation.id).await.unwrap();
    assert!(steps.iter().all(|step| step.state.status() == StepStatus::Canceled));
    assert!(super::fixture::lease_some(store, &node, 9, 4).await.is_empty());
}

/// The node that holds the task says when it has stopped.
pub async fn canceling_what_runs_asks_the_node(store: &dyn Store) {
    let (node, operation, lease) = running(store).await;
    let name = &operation.project.project_id;
    let asked = store.cancel_operation(name, operation.id, when(7)).await.unwrap();
    assert_eq!(asked.state.status(), OperationStatus::Running);
    assert!(asked.cancel_requested_at.is_some());
    assert_eq!(store.cancel_requests(node.id).await.unwrap(), [lease.task_id]);
    let extended = store.extend_lease(key(&node, &lease), super::fixture::at(60), when(8)).await.unwrap();
    assert!(extended.canceled);
    store.finish_task(key(&node, &lease), TaskOutcome::Canceled, when(9)).await.unwrap();
    assert_eq!(show(store, &operation).await.state.status(), OperationStatus::Canceled);
    assert!(store.cancel_requests(node.id).await.unwrap().is_empty());
}

/// What has happened has happened.
pub async fn what_is_over_cannot_be_canceled(store: &dyn Store) {
    let (node, operation, lease) = running(store).await;
    for (sequence, name) in [(1, "first"), (3, "second")] {
        report(store, key(&node, &lease), sequence, started(name)).await;
        report(store, key(&node, &lease), sequence + 1, succeeded(name, serde_json::json!({}))).await;
    }
    store.finish_task(key(&node, &lease), TaskOutcome::Succeeded, when(9)).await.unwrap();
    let error = store.cancel_operation(&operation.project.project_id, operation.id, when(10)).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { code: "operation.is_over", .. }), "{error}");
    assert_eq!(show(store, &operation).await.state.status(), OperationStatus::Succeeded);
}

/// An operation exists in its own project only.
pub async fn another_project_sees_nothing(store: &dyn Store) {
    let node = node(store, 1, 1).await;
    let operation = submit(store, 1, &node).await;
    let other = project("other").project_id;
    assert_eq!(store.operation(&other, operation.id).await.unwrap(), None);
    assert!(store.operations(&other, None, all()).await.unwrap().is_empty());
    let error = store.cancel_operation(&other, operation.id, when(2)).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }));
}
