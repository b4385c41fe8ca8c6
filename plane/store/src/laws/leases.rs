//! Laws of leases.

use fettle_model::{
    failure::{Failure, FailureClass},
    operation::OperationStatus,
    task::{Epoch, TaskOutcome},
};
use serde_json::json;

use super::fixture::{
    TRACE_PARENT, acknowledge, at, key, lease, lease_some, node, report, running, show, started, step, submit,
    succeeded, when,
};
use crate::{
    Store,
    task::{OpenTasks, Verdict},
};

/// The epoch is what fences.
pub async fn each_lease_has_a_higher_epoch(store: &dyn Store) {
    let node = node(store, 1, 1).await;
    submit(store, 1, &node).await;
    let mut last = Epoch(0);
    for round in 1..=3 {
        let given = lease(store, &node, round * 100).await;
        assert!(given.epoch > last);
        last = given.epoch;
        store.expire_leases(when(round * 100 + 50)).await.unwrap();
    }
}

/// Whatever it asks for.
pub async fn a_node_is_never_given_more_than_its_slots(store: &dyn Store) {
    let node = node(store, 1, 2).await;
    for number in 1..=5 {
        submit(store, number, &node).await;
    }
    assert_eq!(lease_some(store, &node, 1, 2).await.len(), 1);
    let second = lease_some(store, &node, 9, 2).await;
    assert_eq!(second.len(), 1);
    assert!(lease_some(store, &node, 9, 2).await.is_empty());
    assert_eq!(store.node(node.id).await.unwrap().unwrap().running_tasks, 2);
    assert_eq!(store.next_lease_deadline().await.unwrap(), Some(at(12)));
}

/// A task is bound to one node.
pub async fn a_task_is_leased_to_its_own_node_only(store: &dyn Store) {
    let (own, other) = (node(store, 1, 1).await, node(store, 2, 1).await);
    submit(store, 1, &own).await;
    assert!(lease_some(store, &other, 9, 2).await.is_empty());
    let given = lease(store, &own, 2).await;
    let stolen = crate::task::LeaseKey { node_id: other.id, ..key(&own, &given) };
    assert_eq!(store.acknowledge_lease(stolen, at(60), when(3)).await.unwrap(), Verdict::Stale);
    assert_eq!(report(store, stolen, 1, started("first")).await, Verdict::Stale);
}

/// A lease that never arrived is given again.
pub async fn an_unacknowledged_lease_expires(store: &dyn Store) {
    let node = node(store, 1, 1).await;
    let operation = submit(store, 1, &node).await;
    let first = lease(store, &node, 2).await;
    assert_eq!(store.expire_leases(when(11)).await.unwrap(), 0);
    assert_eq!(store.expire_leases(when(12)).await.unwrap(), 1);
    assert_eq!(acknowledge(store, &node, &first, 13).await, Verdict::Stale);
    assert_eq!(show(store, &operation).await.state.status(), OperationStatus::Queued);
    let second = lease(store, &node, 14).await;
    assert_eq!(second.task_id, first.task_id);
    assert_eq!(acknowledge(store, &node, &second, 15).await, Verdict::Accepted);
    assert_eq!(show(store, &operation).await.state.status(), OperationStatus::Running);
}

/// A host that is alive keeps its work.
pub async fn an_extended_lease_does_not_expire(store: &dyn Store) {
    let (node, _, given) = running(store).await;
    let extended = store.extend_lease(key(&node, &given), at(100), when(30)).await.unwrap();
    assert_eq!((extended.verdict, extended.canceled), (Verdict::Accepted, false));
    assert_eq!(store.expire_leases(when(99)).await.unwrap(), 0);
    assert_eq!(store.next_lease_deadline().await.unwrap(), Some(at(100)));
    assert_eq!(store.expire_leases(when(100)).await.unwrap(), 1);
    assert_eq!(store.next_lease_deadline().await.unwrap(), None);
}

/// Every verb is fenced.
pub async fn nothing_is_accepted_under_an_old_epoch(store: &dyn Store) {
    let (node, operation, old) = running(store).await;
    store.expire_leases(when(99)).await.unwrap();
    let new = lease(store, &node, 100).await;
    let stale = key(&node, &old);
    assert_eq!(acknowledge(store, &node, &old, 101).await, Verdict::Stale);
    assert_eq!(report(store, stale, 9, started("first")).await, Verdict::Stale);
    assert_eq!(report(store, stale, 10, succeeded("first", json!(1))).await, Verdict::Stale);
    assert_eq!(store.extend_lease(stale, at(900), when(101)).await.unwrap().verdict, Verdict::Stale);
    let failed = TaskOutcome::Failed {
        failure: fettle_model::failure::Failure::new(
            fettle_model::failure::FailureClass::Permanent,
            "test",
            "it failed",
        ),
        step_id: None,
    };
    assert_eq!(store.finish_task(stale, failed, when(101)).await.unwrap(), Verdict::Stale);
    assert_eq!(report(store, key(&node, &new), 1, started("first")).await, Verdict::Accepted);
    assert_eq!(show(store, &operation).await.state.status(), OperationStatus::Running);
}

/// Between two leases nobody has the right.
pub async fn nothing_is_accepted_after_expiry_before_the_next_lease(store: &dyn Store) {
    let (node, _, old) = running(store).await;
    store.expire_leases(when(99)).await.unwrap();
    assert_eq!(report(store, key(&node, &old), 1, succeeded("first", json!(1))).await, Verdict::Stale);
}

/// A reconnecting node goes on under the same epoch.
pub async fn a_node_keeps_what_it_holds(store: &dyn Store) {
    let (node, _, given) = running(store).await;
    let resumed = store.resume_leases(node.id, vec![given.task_id], at(200), when(90)).await.unwrap();
    assert_eq!(resumed.renewed, [given.task_id]);
    assert_eq!(store.expire_leases(when(199)).await.unwrap(), 0);
    assert_eq!(report(store, key(&node, &given), 1, started("first")).await, Verdict::Accepted);
}

/// A lease that got lost on the way is not waited for.
pub async fn what_a_node_does_not_hold_is_leased_again(store: &dyn Store) {
    let (node, _, first) = running(store).await;
    let resumed = store.resume_leases(node.id, Vec::new(), at(200), when(10)).await.unwrap();
    assert_eq!((resumed.renewed.len(), resumed.dropped.len()), (0, 0));
    let second = lease(store, &node, 11).await;
    assert_eq!(second.task_id, first.task_id);
    assert!(second.epoch > first.epoch);
}

/// A node does not go on with what is over, or never was its own.
pub async fn what_is_over_is_dropped_by_its_node(store: &dyn Store) {
    let own = node(store, 1, 1).await;
    let other = node(store, 2, 1).await;
    let operation = submit(store, 1, &own).await;
    let given = lease(store, &own, 2).await;
    let wrong = store.resume_leases(other.id, vec![given.task_id], at(200), when(3)).await.unwrap();
    assert_eq!(wrong.dropped, [given.task_id]);
    store.expire_leases(when(50)).await.unwrap();
    store.cancel_operation(&operation.project.project_id, operation.id, when(51)).await.unwrap();
    let resumed = store.resume_leases(own.id, vec![given.task_id], at(200), when(52)).await.unwrap();
    assert_eq!(resumed.dropped, [given.task_id]);
}

/// It would only be leased to be canceled.
pub async fn an_expired_lease_of_a_canceled_task_ends_it(store: &dyn Store) {
    let (node, operation, _) = running(store).await;
    store.cancel_operation(&operation.project.project_id, operation.id, when(7)).await.unwrap();
    assert_eq!(store.expire_leases(when(99)).await.unwrap(), 1);
    assert_eq!(show(store, &operation).await.state.status(), OperationStatus::Canceled);
    assert!(lease_some(store, &node, 1, 100).await.is_empty());
}

/// A step that is done is not done again.
pub async fn accepted_outputs_travel_with_the_next_lease(store: &dyn Store) {
    let (node, _, first) = running(store).await;
    assert!(first.task.accepted.is_empty());
    report(store, key(&node, &first), 1, started("first")).await;
    report(store, key(&node, &first), 2, succeeded("first", json!({"path": "a"}))).await;
    report(store, key(&node, &first), 3, started("second")).await;
    store.expire_leases(when(99)).await.unwrap();
    let second = lease(store, &node, 100).await;
    assert_eq!(second.task.accepted.len(), 1);
    assert_eq!(second.task.accepted[&step("first")], json!({"path": "a"}));
}

/// A plane that was away gives its nodes time to come back.
pub async fn spared_leases_do_not_expire(store: &dyn Store) {
    running(store).await;
    store.spare_leases(at(500)).await.unwrap();
    assert_eq!(store.expire_leases(when(499)).await.unwrap(), 0);
    assert_eq!(store.expire_leases(when(500)).await.unwrap(), 1);
}

/// A node that could not extend in time goes on under the same epoch, as long as it was not leased anew.
pub async fn a_lease_that_expired_is_held_again_under_its_epoch(store: &dyn Store) {
    let node = node(store, 1, 1).await;
    submit(store, 1, &node).await;
    let given = lease(store, &node, 2).await;
    assert_eq!(acknowledge(store, &node, &given, 3).await, Verdict::Accepted);
    assert_eq!(store.expire_leases(when(1000)).await.unwrap(), 1);
    let held = key(&node, &given);
    assert_eq!(store.extend_lease(held, at(2000), when(1001)).await.unwrap().verdict, Verdict::Accepted);
    assert_eq!(report(store, held, 1, started("first")).await, Verdict::Accepted);
    assert!(lease_some(store, &node, 9, 1002).await.is_empty(), "it was leased twice");
}

/// A node that asks for a task that is over is told so, and one that asks for another node's is not.
pub async fn an_extension_tells_a_task_that_is_over(store: &dyn Store) {
    let (own, other) = (node(store, 1, 1).await, node(store, 2, 1).await);
    let operation = submit(store, 1, &own).await;
    let given = lease(store, &own, 2).await;
    assert_eq!(acknowledge(store, &own, &given, 3).await, Verdict::Accepted);
    let foreign = crate::task::LeaseKey { node_id: other.id, ..key(&own, &given) };
    store.cancel_operation(&operation.project.project_id, operation.id, when(4)).await.unwrap();
    assert_eq!(store.expire_leases(when(1000)).await.unwrap(), 1);
    assert_eq!(store.extend_lease(key(&own, &given), at(2000), when(1001)).await.unwrap().verdict, Verdict::Ended);
    assert_eq!(store.extend_lease(foreign, at(2000), when(1001)).await.unwrap().verdict, Verdict::Stale);
}

/// However often it is leased.
pub async fn a_lease_carries_the_trace_of_its_operation(store: &dyn Store) {
    let node = node(store, 1, 1).await;
    submit(store, 1, &node).await;
    for round in 1..=2 {
        let task = lease(store, &node, round * 100).await.task;
        assert_eq!((task.trace_parent.as_deref(), task.org_id.as_deref()), (Some(TRACE_PARENT), Some("default")));
        store.expire_leases(when(round * 100 + 50)).await.unwrap();
    }
}

/// Those that wait, and those that are held; never those that are over.
pub async fn open_tasks_are_counted(store: &dyn Store) {
    assert_eq!(store.open_tasks().await.unwrap(), OpenTasks { ready: 0, leased: 0 });
    let node = node(store, 1, 1).await;
    submit(store, 1, &node).await;
    submit(store, 2, &node).await;
    let given = lease(store, &node, 2).await;
    assert_eq!(store.open_tasks().await.unwrap(), OpenTasks { ready: 1, leased: 1 });
    let failure = Failure::new(FailureClass::Permanent, "test.failed", "it failed");
    let outcome = TaskOutcome::Failed { failure, step_id: None };
    store.finish_task(key(&node, &given), outcome, when(3)).await.unwrap();
    assert_eq!(store.open_tasks().await.unwrap(), OpenTasks { ready: 1, leased: 0 });
}

/// And it is written down before it is given.
pub async fn a_credential_is_for_whoever_holds_the_task(store: &dyn Store) {
    let (own, other) = (node(store, 1, 1).await, node(store, 2, 1).await);
    let operation = submit(store, 1, &own).await;
    let given = lease(store, &own, 100).await;
    let key = key(&own, &given);
    let held = store.held_task(key).await.unwrap().unwrap();
    assert_eq!((held.operation_id, held.project), (operation.id, operation.project.clone()));
    let rows = async || {
        let rows = store.audit(crate::page::Page { after: None, size: 1000 }).await.unwrap();
        rows.into_iter().filter(|row| row.action == "credential.mint").collect::<Vec<_>>()
    };
    for wrong in [
        crate::task::LeaseKey { node_id: other.id, ..key },
        crate::task::LeaseKey { epoch: Epoch(key.epoch.0 + 1), ..key },
        crate::task::LeaseKey { task_id: crate::id::TaskId::new(ulid::Ulid(7)), ..key },
    ] {
        assert_eq!(store.held_task(wrong).await.unwrap(), None);
        let recorded = store.record_credential(wrong, json!({}), when(3)).await.unwrap();
        assert_eq!((recorded, rows().await.len()), (Verdict::Stale, 0));
    }
    let details = json!({"credential_type": "s3_read", "scope": "bucket/a", "step_id": "first"});
    assert_eq!(store.record_credential(key, details.clone(), when(4)).await.unwrap(), Verdict::Accepted);
    let [row] = &rows().await[..] else { panic!("one row") };
    assert_eq!((row.details.as_ref(), row.correlation_id.as_str()), (Some(&details), held.correlation_id.as_str()));
    assert_eq!(row.resource_name, format!("tasks/{}", given.task_id));
    store.expire_leases(when(200)).await.unwrap();
    assert_eq!(store.held_task(key).await.unwrap(), None, "the lease is over");
    assert_eq!(store.record_credential(key, details, when(201)).await.unwrap(), Verdict::Stale);
}
