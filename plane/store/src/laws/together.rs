//! Laws of verbs that arrive at the same time: a store may run them together, and answers each as if it were alone.

use fettle_model::{digest::Digest, failure::FailureClass, operation::OperationStatus, task::TaskOutcome};
use futures::future::join_all;
use serde_json::json;

use super::fixture::{
    all, at, create, failure, key, lease_some, new_operation, node, on_nodes, project, show, started, submit,
    succeeded, ulid, when,
};
use crate::{
    Store, StoreError,
    chain::Chain,
    id::TaskId,
    node::Node,
    operation::{Created, NewOperation, Operation, Terms},
    task::{Lease, LeaseKey, Report, Verdict},
};

/// How many at the same time.
const MANY: u32 = 24;

async fn leased(store: &dyn Store) -> (Node, Vec<Operation>, Vec<Lease>) {
    let node = node(store, 1, MANY).await;
    let mut operations = Vec::new();
    for number in 1..=MANY {
        operations.push(submit(store, u128::from(number), &node).await);
    }
    let leases = lease_some(store, &node, MANY, 2).await;
    assert_eq!(leases.len(), operations.len());
    (node, operations, leases)
}

fn stale(lease: LeaseKey) -> LeaseKey {
    LeaseKey { epoch: fettle_model::task::Epoch(lease.epoch.0 + 1), ..lease }
}

fn unknown(lease: LeaseKey) -> LeaseKey {
    LeaseKey { task_id: TaskId::new(ulid(9_999)), ..lease }
}

/// Both steps of a task, as its node tells of them.
fn done(lease: LeaseKey) -> Vec<Report> {
    let events = [started("first"), succeeded("first", json!({})), started("second"), succeeded("second", json!({}))];
    (1..).zip(events).map(|(sequence, event)| Report { lease, sequence, event }).collect()
}

async fn acknowledge(store: &dyn Store, lease: LeaseKey) -> Verdict {
    store.acknowledge_lease(lease, at(600), when(3)).await.unwrap()
}

async fn tell(store: &dyn Store, reports: Vec<Report>) -> Vec<Result<Verdict, StoreError>> {
    store.apply_reports(reports, when(4)).await.unwrap()
}

async fn whole_chain(store: &dyn Store) {
    let rows = store.audit(all()).await.unwrap();
    let mut chain = Chain::with_head(None);
    rows.iter().try_for_each(|row| chain.follow(row)).unwrap();
}

async fn finish(store: &dyn Store, lease: LeaseKey) -> Result<Verdict, StoreError> {
    store.finish_task(lease, TaskOutcome::Succeeded, when(5)).await
}

/// One with a key that is used at the same moment, one for another request, and one of no node take nothing from those
/// beside them.
pub async fn operations_are_created_each_on_its_own(store: &dyn Store) {
    let node = node(store, 1, MANY).await;
    store.ensure_project(project("demo"), when(1)).await.unwrap();
    let new = |number: u32| {
        let new = new_operation(u128::from(number), &node, None);
        let key = Some(format!("key-{}", number / 4));
        match number % 4 {
            0 => on_nodes(new, &[]),
            1 | 2 => NewOperation { idempotency_key: key, ..new },
            _ => NewOperation { request_digest: Digest::of(b"another"), idempotency_key: key, ..new },
        }
    };
    let asked = (0..MANY * 4).map(|number| store.create_operation(new(number), when(1)));
    let answers = join_all(asked).await;
    for answers in answers.chunks(4) {
        let [no_node, one, same, other] = answers else { unreachable!("chunks of four") };
        assert!(matches!(no_node, Err(StoreError::Conflict { code: "operation.no_node", .. })), "{no_node:?}");
        // Whichever was first is the one; the same request is told so, and another one is refused.
        let code = |answer: &Result<Created, StoreError>| match answer {
            Ok(Created::New(_)) => "new",
            Ok(Created::Repeated(_)) => "repeated",
            Err(StoreError::Conflict { code, .. }) => code,
            Err(error) => panic!("{error}"),
        };
        let told = [code(one), code(same), code(other)];
        let same_first = [["new", "repeated"], ["repeated", "new"]].iter().any(|both| told[..2] == both[..]);
        let other_first = told == ["operation.key_reused", "operation.key_reused", "new"];
        assert!((same_first && told[2] == "operation.key_reused") || other_first, "{told:?}");
    }
    let leases = lease_some(store, &node, MANY, 2).await;
    assert_eq!(leases.len(), MANY as usize, "one of each four has its task");
    for lease in &leases {
        let id = lease.task.operation_id.parse().unwrap();
        assert_eq!(store.steps(id).await.unwrap().len(), 2);
        assert_eq!(store.events(id, all()).await.unwrap().len(), 1);
    }
    whole_chain(store).await;
}

/// A stale key, and one of no task, take nothing from those beside them.
pub async fn leases_are_held_each_on_its_own(store: &dyn Store) {
    let (node, operations, leases) = leased(store).await;
    let keys: Vec<_> = leases.iter().map(|lease| key(&node, lease)).collect();
    let asked = keys.iter().flat_map(|lease| [*lease, stale(*lease), unknown(*lease)]);
    let verdicts = join_all(asked.map(|lease| acknowledge(store, lease))).await;
    for verdicts in verdicts.chunks(3) {
        assert_eq!(verdicts, [Verdict::Accepted, Verdict::Stale, Verdict::Ended]);
    }
    for operation in &operations {
        assert_eq!(show(store, operation).await.state.status(), OperationStatus::Running);
    }
    assert_eq!(store.expire_leases(when(599)).await.unwrap(), 0, "an acknowledged lease lasts");
}

/// Reports of many tasks at once, one of them of a step that does not exist.
pub async fn reports_are_stored_each_on_its_own(store: &dyn Store) {
    let (node, operations, leases) = leased(store).await;
    let keys: Vec<_> = leases.iter().map(|lease| key(&node, lease)).collect();
    let wrong = Report { lease: keys[0], sequence: 5, event: started("third") };
    let asked = keys.iter().map(|lease| done(*lease)).chain([vec![wrong], done(stale(keys[1]))]);
    let mut answers = join_all(asked.map(|reports| tell(store, reports))).await;
    let late = answers.pop().unwrap();
    assert!(late.iter().all(|verdict| matches!(verdict, Ok(Verdict::Stale))), "{late:?}");
    let wrong = answers.pop().unwrap();
    assert!(matches!(wrong.as_slice(), [Err(StoreError::NotFound { .. })]), "{wrong:?}");
    assert!(answers.iter().flatten().all(|verdict| matches!(verdict, Ok(Verdict::Accepted))), "{answers:?}");
    for operation in &operations {
        assert_eq!(store.events(operation.id, all()).await.unwrap().len(), 5, "requested, and four of steps");
    }
}

/// Tasks that end at the same time: each by its own outcome, and one that was told twice once.
pub async fn tasks_end_each_on_its_own(store: &dyn Store) {
    let (node, operations, leases) = leased(store).await;
    let keys: Vec<_> = leases.iter().map(|lease| key(&node, lease)).collect();
    let (unfinished, finished) = keys.split_first().unwrap();
    join_all(finished.iter().map(|lease| tell(store, done(*lease)))).await;
    let asked = finished.iter().flat_map(|lease| [*lease, *lease, stale(*lease)]).chain([*unfinished]);
    let mut verdicts = join_all(asked.map(|lease| finish(store, lease))).await;
    let refused = verdicts.pop().unwrap();
    assert!(matches!(&refused, Err(StoreError::Conflict { code: "task.step_not_succeeded", .. })), "{refused:?}");
    for verdicts in verdicts.chunks(3) {
        let verdicts: Vec<_> = verdicts.iter().map(|verdict| *verdict.as_ref().unwrap()).collect();
        assert_eq!(verdicts, [Verdict::Accepted, Verdict::Accepted, Verdict::Stale]);
    }
    let mut succeeded = 0;
    for operation in &operations {
        let ended = show(store, operation).await.state.status() == OperationStatus::Succeeded;
        succeeded += u32::from(ended);
        let events = store.events(operation.id, all()).await.unwrap();
        let ends = events.iter().filter(|event| event.kind.name() == "operation.completed").count();
        assert_eq!(ends, usize::from(ended), "an operation ends once");
    }
    assert_eq!(succeeded, MANY - 1);
    whole_chain(store).await;
}

/// Nodes of one operation that fail at the same time end it once, and no further one is started.
pub async fn tasks_of_one_operation_end_together(store: &dyn Store) {
    let mut nodes = Vec::new();
    for number in 1..=8 {
        nodes.push(node(store, number, 1).await);
    }
    let terms = Terms { failure_budget: Some(2), ..Terms::default() };
    let new = crate::operation::NewOperation { terms, ..on_nodes(new_operation(1, &nodes[0], None), &nodes) };
    let operation = create(store, new).await;
    let mut keys = Vec::new();
    for node in &nodes[..6] {
        let lease = lease_some(store, node, 1, 2).await.pop().unwrap();
        keys.push(key(node, &lease));
    }
    let failed = TaskOutcome::Failed { failure: failure(FailureClass::Permanent), step_id: None };
    let verdicts = join_all(keys.iter().map(|lease| store.finish_task(*lease, failed.clone(), when(9)))).await;
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Ok(Verdict::Accepted))), "{verdicts:?}");
    assert_eq!(show(store, &operation).await.state.status(), OperationStatus::Failed);
    let events = store.events(operation.id, all()).await.unwrap();
    assert_eq!(events.iter().filter(|event| event.kind.name() == "operation.failed").count(), 1);
    for node in &nodes[6..] {
        assert!(lease_some(store, node, 1, 10).await.is_empty(), "a node was started beyond the budget");
    }
}
