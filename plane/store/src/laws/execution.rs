//! Laws of operations on several nodes, of limits and of deadlines.

use std::collections::{BTreeMap, BTreeSet};

use fettle_model::{
    definition::Requirements,
    failure::FailureClass,
    operation::{OperationStatus, StepStatus},
    task::TaskOutcome,
};
use serde_json::json;

use super::fixture::{
    acknowledge, all, at, create, failure, key, lease, lease_some, logged, new_operation, node, on_nodes, project,
    report, show, started, succeeded, when,
};
use crate::{
    Store, StoreError,
    node::Node,
    operation::{Concurrency, NewOperation, Operation, TaskStatus, Terms, Wait},
    project::Project,
    task::{Lease, Verdict, Wanted},
};

async fn nodes(store: &dyn Store, count: u128, slots: u32) -> Vec<Node> {
    let mut nodes = Vec::new();
    for number in 1..=count {
        nodes.push(node(store, number, slots).await);
    }
    nodes
}

fn with(new: NewOperation, terms: Terms) -> NewOperation {
    NewOperation { terms, ..new }
}

async fn succeed(store: &dyn Store, node: &Node, lease: &Lease) {
    for (sequence, name) in [(1, "first"), (3, "second")] {
        report(store, key(node, lease), sequence, started(name)).await;
        report(store, key(node, lease), sequence + 1, succeeded(name, json!({}))).await;
    }
    let verdict = store.finish_task(key(node, lease), TaskOutcome::Succeeded, when(20)).await.unwrap();
    assert_eq!(verdict, Verdict::Accepted);
}

async fn fail(store: &dyn Store, node: &Node, lease: &Lease) {
    let outcome = TaskOutcome::Failed { failure: failure(FailureClass::Permanent), step_id: None };
    assert_eq!(store.finish_task(key(node, lease), outcome, when(20)).await.unwrap(), Verdict::Accepted);
}

async fn statuses(store: &dyn Store, operation: &Operation) -> Vec<TaskStatus> {
    let tasks = store.node_tasks(operation.id, at(0)).await.unwrap();
    tasks.into_iter().map(|task| task.status).collect()
}

async fn waits(store: &dyn Store, operation: &Operation) -> Vec<Wait> {
    let tasks = store.node_tasks(operation.id, at(0)).await.unwrap();
    let waits = tasks.into_iter().flat_map(|task| task.waits_for);
    waits.filter(|wait| !matches!(wait, Wait::Silent(_))).collect()
}

/// It is over when the last of them is.
pub async fn an_operation_has_one_task_per_node(store: &dyn Store) {
    let nodes = nodes(store, 3, 1).await;
    let operation = create(store, on_nodes(new_operation(1, &nodes[0], None), &nodes)).await;
    assert_eq!((operation.total_nodes, operation.linked_node_id), (3, None));
    assert_eq!(show(store, &operation).await, operation);
    assert_eq!(store.steps(operation.id).await.unwrap().len(), 6);
    for (number, node) in nodes.iter().enumerate() {
        assert!(!show(store, &operation).await.state.status().is_final(), "{number} of 3 are over");
        let given = lease(store, node, 2).await;
        assert_eq!(given.task.node_id, node.id.to_string());
        succeed(store, node, &given).await;
    }
    assert_eq!(show(store, &operation).await.state.status(), OperationStatus::Succeeded);
    assert_eq!(statuses(store, &operation).await, [TaskStatus::Succeeded; 3]);
}

/// Who decides about tasks sees them in the order in which they go, and one that is given leaves the others where they are.
pub async fn what_waits_is_told_in_order_and_given_one_by_one(store: &dyn Store) {
    let nodes = nodes(store, 2, 2).await;
    let of = |number, node, priority| with(new_operation(number, node, None), Terms { priority, ..Terms::default() });
    let mut operations = Vec::new();
    for (number, priority) in [(1, 5), (2, 5), (3, 9)] {
        operations.push(create(store, of(number, &nodes[0], priority)).await);
    }
    create(store, of(4, &nodes[1], 5)).await;
    let told = async || {
        let tasks = store.ready_tasks(nodes[0].id).await.unwrap();
        tasks.into_iter().map(|task| (task.operation_id, task.id)).collect::<Vec<_>>()
    };
    let ready = store.ready_tasks(nodes[0].id).await.unwrap();
    let expected = [&operations[2], &operations[0], &operations[1]];
    for (task, operation) in ready.iter().zip(expected) {
        let told = (&task.operation_id, &task.operation_type, &task.version, &task.project, &task.inputs);
        let made =
            (&operation.id, &operation.operation_type, &operation.version, &operation.project, &operation.inputs);
        assert_eq!(told, made);
        assert_eq!((&task.requested_by, task.created_at), (&operation.requested_by, operation.created_at));
    }
    let before = told().await;
    assert_eq!(before.len(), 3);
    let this = async |node: &Node, id| {
        store
            .lease_tasks(node.id, Wanted::This(id), at(20), when(2))
            .await
            .unwrap()
            .into_iter()
            .map(|lease| lease.task_id)
    };
    assert!(this(&nodes[1], before[1].1).await.next().is_none(), "it is another node's");
    assert!(this(&nodes[0], before[1].1).await.eq([before[1].1]));
    assert!(this(&nodes[0], before[1].1).await.next().is_none(), "it is given");
    assert_eq!(told().await, [before[0], before[2]]);
    assert!(this(&nodes[0], before[2].1).await.eq([before[2].1]));
    assert!(this(&nodes[0], before[0].1).await.next().is_none(), "the node has two slots");
    assert_eq!(told().await, [before[0]], "what keeps it from the node is not looked at");
}

/// Nothing would ever end it.
pub async fn an_operation_of_no_node_is_refused(store: &dyn Store) {
    let node = node(store, 1, 1).await;
    store.ensure_project(project("demo"), when(1)).await.unwrap();
    let empty = on_nodes(new_operation(1, &node, None), &[]);
    let error = store.create_operation(empty, when(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { code: "operation.no_node", .. }), "{error}");
    assert!(store.operations(&project("demo").project_id, None, all()).await.unwrap().is_empty());
}

/// What has been started goes on; what has not is never started.
pub async fn a_failure_beyond_the_budget_skips_the_rest(store: &dyn Store) {
    let nodes = nodes(store, 4, 1).await;
    let terms = Terms { failure_budget: Some(1), ..Terms::default() };
    let new = with(on_nodes(new_operation(1, &nodes[0], None), &nodes), terms);
    let operation = create(store, new).await;
    let (one, two, three) =
        (lease(store, &nodes[0], 2).await, lease(store, &nodes[1], 2).await, lease(store, &nodes[2], 2).await);
    fail(store, &nodes[0], &one).await;
    assert_eq!(statuses(store, &operation).await[3], TaskStatus::Ready, "one failure is within the budget");
    fail(store, &nodes[1], &two).await;
    use TaskStatus::{Failed, Leased, Skipped, Succeeded};
    assert_eq!(statuses(store, &operation).await, [Failed, Failed, Leased, Skipped]);
    assert!(lease_some(store, &nodes[3], 9, 21).await.is_empty());
    succeed(store, &nodes[2], &three).await;
    assert_eq!(statuses(store, &operation).await, [Failed, Failed, Succeeded, Skipped]);
    assert_eq!(show(store, &operation).await.state.status(), OperationStatus::Failed);
    let steps = store.steps(operation.id).await.unwrap();
    let skipped = steps.iter().filter(|step| step.node_id == nodes[3].id);
    assert!(skipped.clone().count() == 2 && skipped.clone().all(|step| step.state.status() == StepStatus::Skipped));
}

/// The others wait for one to end.
pub async fn only_so_many_nodes_work_on_it_at_once(store: &dyn Store) {
    let nodes = nodes(store, 3, 1).await;
    let terms = Terms { max_parallel_nodes: Some(2), ..Terms::default() };
    let new = with(on_nodes(new_operation(1, &nodes[0], None), &nodes), terms);
    let operation = create(store, new).await;
    let first = lease(store, &nodes[0], 2).await;
    lease(store, &nodes[1], 2).await;
    assert!(lease_some(store, &nodes[2], 9, 2).await.is_empty());
    assert_eq!(waits(store, &operation).await, [Wait::ParallelNodes(2)]);
    succeed(store, &nodes[0], &first).await;
    assert_eq!(lease_some(store, &nodes[2], 9, 21).await.len(), 1);
}

/// In the project, in the organisation, everywhere: each limit holds.
pub async fn only_so_many_operations_of_a_type_are_under_way(store: &dyn Store) {
    let node = node(store, 1, 9).await;
    let limits = |scope: &str| match scope {
        "global" => Concurrency { global: Some(1), ..Concurrency::default() },
        "tenant" => Concurrency { tenant: Some(1), ..Concurrency::default() },
        _ => Concurrency { project: Some(1), ..Concurrency::default() },
    };
    let place =
        |project: &str, org: &str| Project { project_id: project.parse().unwrap(), org_id: org.parse().unwrap() };
    // Under way: one operation of project `one` of organisation `a`.
    create(store, NewOperation { project: place("one", "a"), ..new_operation(1, &node, None) }).await;
    let running = lease(store, &node, 2).await;
    let mut number = 1;
    for (scope, project, org, may) in [
        ("project", "one", "a", false),
        ("project", "two", "a", true),
        ("tenant", "three", "a", false),
        ("tenant", "four", "b", true),
        ("global", "five", "c", false),
    ] {
        number += 1;
        let terms = Terms { max_concurrency: limits(scope), ..Terms::default() };
        let new = NewOperation { project: place(project, org), ..new_operation(number, &node, None) };
        let operation = create(store, with(new, terms)).await;
        let given = lease_some(store, &node, 9, 3).await;
        assert_eq!(!given.is_empty(), may, "{scope} {project} {org}");
        if may {
            succeed(store, &node, &given[0]).await;
        } else {
            assert_eq!(waits(store, &operation).await, [Wait::Concurrency { scope, limit: 1 }]);
            store.cancel_operation(&operation.project.project_id, operation.id, when(4)).await.unwrap();
        }
    }
    let terms = Terms { max_concurrency: limits("global"), ..Terms::default() };
    create(store, with(new_operation(99, &node, None), terms)).await;
    succeed(store, &node, &running).await;
    assert_eq!(lease_some(store, &node, 9, 22).await.len(), 1, "the one before it is over");
}

/// Whoever asks for much does not keep the others waiting.
pub async fn organisations_take_turns_on_a_node(store: &dyn Store) {
    let node = node(store, 1, 1).await;
    let place =
        |name: &str| Project { project_id: format!("of-{name}").parse().unwrap(), org_id: name.parse().unwrap() };
    for number in 1..=4 {
        create(store, NewOperation { project: place("greedy"), ..new_operation(number, &node, None) }).await;
    }
    for number in 5..=6 {
        create(store, NewOperation { project: place("late"), ..new_operation(number, &node, None) }).await;
    }
    let mut order = Vec::new();
    for second in 1..=6 {
        let given = lease(store, &node, second * 10).await;
        order.push(given.task.project_id.clone());
        succeed(store, &node, &given).await;
    }
    assert_eq!(order, ["of-greedy", "of-late", "of-greedy", "of-late", "of-greedy", "of-greedy"]);
}

/// Among the tasks of one organisation.
pub async fn the_higher_priority_goes_first(store: &dyn Store) {
    let node = node(store, 1, 9).await;
    let mut expected = Vec::new();
    for (number, priority) in [(1, 5), (2, 9), (3, 5), (4, 0)] {
        let terms = Terms { priority, ..Terms::default() };
        expected.push(create(store, with(new_operation(number, &node, None), terms)).await.id.to_string());
    }
    let given = lease_some(store, &node, 9, 2).await;
    let order: Vec<_> = given.iter().map(|lease| lease.task.operation_id.as_str()).collect();
    assert_eq!(order, [&expected[1], &expected[0], &expected[2], &expected[3]]);
}

fn needs(value: &str) -> Terms {
    let accepted = BTreeSet::from([value.to_owned()]);
    let requires = Requirements { capabilities: BTreeMap::from([("gpu.vendor".to_owned(), accepted)]) };
    Terms { requires, ..Terms::default() }
}

/// Even when it had the capability at the time of the request; and the next task goes.
pub async fn a_node_that_lacks_a_capability_is_given_nothing(store: &dyn Store) {
    let node = node(store, 1, 9).await;
    let waiting = create(store, with(new_operation(1, &node, None), needs("amd"))).await;
    let fits = create(store, with(new_operation(2, &node, None), needs("nvidia"))).await;
    let given = lease_some(store, &node, 9, 2).await;
    assert_eq!(given.len(), 1);
    assert_eq!(given[0].task.operation_id, fits.id.to_string());
    let wait = Wait::Capability {
        key: "gpu.vendor".to_owned(),
        accepted: BTreeSet::from(["amd".to_owned()]),
        actual: Some("nvidia".to_owned()),
    };
    assert_eq!(waits(store, &waiting).await, [wait]);
    let mut facts = node.facts.clone();
    facts.capabilities.insert("gpu.vendor".to_owned(), "amd".to_owned());
    store.update_node(node.id, facts, when(3)).await.unwrap();
    assert_eq!(lease(store, &node, 4).await.task.operation_id, waiting.id.to_string());
}

/// Nor does what it keeps back cost the organisation its turn: the next of its tasks goes.
pub async fn a_task_that_is_kept_back_keeps_nobodys_turn(store: &dyn Store) {
    let node = node(store, 1, 3).await;
    let of = |number, name: &str| {
        let project = Project { project_id: format!("of-{name}").parse().unwrap(), org_id: name.parse().unwrap() };
        NewOperation { project, ..new_operation(number, &node, None) }
    };
    for number in 1..=5 {
        create(store, of(number, "greedy")).await;
    }
    assert_eq!(lease_some(store, &node, 2, 2).await.len(), 2, "the node works for one organisation alone");
    create(store, with(of(6, "late"), needs("amd"))).await;
    let fits = create(store, of(7, "late")).await;
    assert_eq!(lease(store, &node, 3).await.task.operation_id, fits.id.to_string());
}

/// Silence and full slots too.
pub async fn a_task_says_why_it_waits(store: &dyn Store) {
    let node = node(store, 1, 1).await;
    create(store, new_operation(1, &node, None)).await;
    let behind = create(store, new_operation(2, &node, None)).await;
    lease(store, &node, 2).await;
    let reasons = async |heard_since| store.node_tasks(behind.id, at(heard_since)).await.unwrap().remove(0).waits_for;
    assert_eq!(reasons(0).await, [Wait::Silent(None), Wait::Slots(1)]);
    store.record_heartbeat(node.id, when(10)).await.unwrap();
    assert_eq!(reasons(10).await, [Wait::Slots(1)]);
    assert_eq!(reasons(11).await, [Wait::Silent(Some(at(10))), Wait::Slots(1)]);
}

/// Nobody has to be asked.
pub async fn what_waits_past_its_deadline_fails(store: &dyn Store) {
    let node = node(store, 1, 1).await;
    let terms = Terms { deadline: Some(at(60)), ..Terms::default() };
    let operation = create(store, with(new_operation(1, &node, None), terms)).await;
    assert_eq!(store.next_operation_deadline().await.unwrap(), Some(at(60)));
    assert_eq!(store.expire_operations(when(59)).await.unwrap(), 0);
    assert_eq!(store.expire_operations(when(60)).await.unwrap(), 1);
    assert_eq!(store.expire_operations(when(61)).await.unwrap(), 0);
    assert_eq!(store.next_operation_deadline().await.unwrap(), None);
    let now = show(store, &operation).await;
    let text = format!("{:?}", now.state);
    assert!(now.state.status() == OperationStatus::Failed && text.contains("operation.deadline_exceeded"), "{text}");
    assert!(lease_some(store, &node, 9, 62).await.is_empty());
}

/// Its node stops it, and it has failed, not been canceled.
pub async fn what_runs_past_its_deadline_is_stopped(store: &dyn Store) {
    let node = node(store, 1, 1).await;
    let terms = Terms { deadline: Some(at(60)), ..Terms::default() };
    let operation = create(store, with(new_operation(1, &node, None), terms)).await;
    let given = lease(store, &node, 2).await;
    acknowledge(store, &node, &given, 3).await;
    store.expire_operations(when(60)).await.unwrap();
    assert_eq!(show(store, &operation).await.state.status(), OperationStatus::Running);
    assert_eq!(store.cancel_requests(node.id).await.unwrap(), [given.task_id]);
    store.finish_task(key(&node, &given), TaskOutcome::Canceled, when(61)).await.unwrap();
    let now = show(store, &operation).await;
    let text = format!("{:?}", now.state);
    assert!(now.state.status() == OperationStatus::Failed && text.contains("operation.deadline_exceeded"), "{text}");
}

/// The same step writes on each of them.
pub async fn logs_say_which_node(store: &dyn Store) {
    let nodes = nodes(store, 2, 1).await;
    let operation = create(store, on_nodes(new_operation(1, &nodes[0], None), &nodes)).await;
    for node in &nodes {
        let given = lease(store, node, 2).await;
        report(store, key(node, &given), 1, logged("first", &[&node.facts.name])).await;
    }
    for node in &nodes {
        let lines = store.logs(operation.id, Some(node.id), None, all()).await.unwrap();
        let lines: Vec<_> = lines.iter().map(|record| (record.node_id, record.line.text.as_str())).collect();
        assert_eq!(lines, [(node.id, node.facts.name.as_str())]);
    }
    assert_eq!(store.logs(operation.id, None, None, all()).await.unwrap().len(), 2);
}
