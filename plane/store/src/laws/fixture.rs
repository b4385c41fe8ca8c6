//! What the laws are about: one project, nodes, operations of two steps.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fettle_model::{
    catalog::Catalog,
    definition::Definition,
    denial::Denial,
    digest::Digest,
    document,
    failure::{Failure, FailureClass},
    name::StepId,
    operation::StepOutcome,
    plan::{self, Plan, Sources},
    task::{LogLevel, LogLine, StepEvent},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use ulid::Ulid;

use crate::{
    Store,
    context::{Actor, Context},
    id::{JoinTokenId, NodeId, OperationId, TaskId},
    node::{NewNode, Node, NodeFacts},
    operation::{Created, NewOperation, NewRun, NewTask, Operation, Terms, TriggerSource},
    page::Page,
    project::Project,
    secret::SecretHash,
    task::{Lease, LeaseKey, Report, Verdict, Wanted},
    token::NewJoinToken,
};

/// Where every operation continues in a trace.
pub const TRACE_PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Seconds after an arbitrary beginning.
#[must_use]
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

/// Somebody does something at that second.
#[must_use]
pub fn when(seconds: i64) -> Context {
    Context { actor: Actor::CommandLine, correlation_id: "law".to_owned(), at: at(seconds) }
}

/// A fresh ULID; number, so that order is known.
#[must_use]
pub fn ulid(number: u128) -> Ulid {
    Ulid::from_parts(1, number)
}

/// The whole list.
#[must_use]
pub fn all<C>() -> Page<C> {
    Page { after: None, size: 1000 }
}

/// A project.
#[must_use]
pub fn project(name: &str) -> Project {
    Project { project_id: name.parse().unwrap(), org_id: "default".parse().unwrap() }
}

/// Two steps, `first` before `second`.
#[must_use]
pub fn definition() -> Definition {
    document::read(
        "{operation_type: test.noop, version: v1, backend_type: node_agent, input_schema: {type: object},
          steps: [{id: first, uses: test.noop@v1}, {id: second, uses: test.noop@v1, needs: [first]}]}",
    )
    .unwrap()
}

/// Where the documents are; `content` makes another digest.
#[must_use]
pub fn sources(place: &str, content: &str) -> Sources {
    let reference = |kind: &str| {
        let digest = Digest::of(format!("{kind} {content}").as_bytes());
        format!("{place}/{kind}@{digest}").parse().unwrap()
    };
    Sources { definition: reference("definition"), catalog: reference("catalog"), policy: reference("policy") }
}

/// The catalog of the definition.
#[must_use]
pub fn catalog() -> Catalog {
    let component = format!("localhost:5000/steps/noop@{}", Digest::of(b"noop"));
    Catalog { steps: BTreeMap::from([("test.noop@v1".parse().unwrap(), component.parse().unwrap())]) }
}

fn plan() -> Plan {
    plan::plan(sources("localhost:5000", "1"), &definition(), &catalog(), json!({"name": "x"})).unwrap()
}

/// A step of the definition.
#[must_use]
pub fn step(name: &str) -> StepId {
    name.parse().unwrap()
}

/// Creates a join token for common nodes, valid for an hour.
pub async fn join_token(store: &dyn Store, secret: &str, uses: u32) {
    store.create_join_token(new_join_token(secret, uses), when(0)).await.unwrap();
}

/// A join token for common nodes, valid for an hour.
#[must_use]
pub fn new_join_token(secret: &str, uses: u32) -> NewJoinToken {
    NewJoinToken {
        id: JoinTokenId::new(Ulid::from_parts(
            2,
            u128::from_str_radix(&SecretHash::of(secret).hex()[..20], 16).unwrap(),
        )),
        hash: SecretHash::of(secret),
        uses,
        owner: None,
        labels: BTreeMap::new(),
        expires_at: at(3600),
    }
}

/// A node that wants to join.
#[must_use]
pub fn joining(number: u128, name: &str, slots: u32) -> NewNode {
    NewNode {
        id: NodeId::new(ulid(number)),
        facts: NodeFacts {
            name: name.to_owned(),
            host_version: "1".to_owned(),
            capabilities: BTreeMap::from([("gpu.vendor".to_owned(), "nvidia".to_owned())]),
            labels: BTreeMap::from([("region".to_owned(), "eu".to_owned())]),
            slots,
        },
        hash: SecretHash::of(&format!("secret of {number}")),
    }
}

/// Joins a node.
pub async fn node(store: &dyn Store, number: u128, slots: u32) -> Node {
    let secret = format!("join {number}");
    join_token(store, &secret, 1).await;
    let new = joining(number, &format!("node-{number}"), slots);
    store.join_node(new, SecretHash::of(&secret), when(0)).await.unwrap()
}

/// An operation for a node.
#[must_use]
pub fn new_operation(number: u128, node: &Node, key: Option<&str>) -> NewOperation {
    let plan = plan();
    NewOperation {
        id: OperationId::new(ulid(number)),
        tasks: vec![NewTask { id: TaskId::new(ulid(1_000_000 + number * 1000)), node_id: node.id }],
        project: project("demo"),
        target_selector: json!({ "node": node.facts.name }),
        trigger_source: TriggerSource::TenantRequest,
        linked_allocation_id: None,
        terms: Terms::default(),
        idempotency_key: key.map(str::to_owned),
        request_digest: Digest::of(b"request"),
        plan_digest: plan.digest().unwrap(),
        plan: Arc::new(plan),
        trace_parent: Some(TRACE_PARENT.to_owned()),
        decision: None,
    }
}

/// Creates an operation.
pub async fn submit(store: &dyn Store, number: u128, node: &Node) -> Operation {
    store.ensure_project(project("demo"), when(1)).await.unwrap();
    match store.create_operation(new_operation(number, node, None), when(1)).await.unwrap() {
        Created::New(operation) => operation,
        Created::Repeated(_) => panic!("it was there already"),
    }
}

/// The same operation for several nodes.
#[must_use]
pub fn on_nodes(new: NewOperation, nodes: &[Node]) -> NewOperation {
    let first: Ulid = new.tasks[0].id.to_string().parse().unwrap();
    let task = |(number, node): (usize, &Node)| NewTask {
        id: TaskId::new(Ulid(first.0 + u128::try_from(number).unwrap())),
        node_id: node.id,
    };
    NewOperation { tasks: nodes.iter().enumerate().map(task).collect(), ..new }
}

/// Creates it.
pub async fn create(store: &dyn Store, new: NewOperation) -> Operation {
    store.ensure_project(new.project.clone(), when(1)).await.unwrap();
    match store.create_operation(new, when(1)).await.unwrap() {
        Created::New(operation) => operation,
        Created::Repeated(_) => panic!("it was there already"),
    }
}

/// A new run on all nodes where it did not succeed.
#[must_use]
pub fn new_run(number: u128) -> NewRun {
    NewRun {
        task_ids: (0..9).map(|one| TaskId::new(ulid(9_000_000 + number * 1000 + one))).collect(),
        nodes: None,
        not_reusable: BTreeSet::new(),
        accept_unknown: false,
        deadline: None,
    }
}

/// A failure of that class.
#[must_use]
pub fn failure(class: FailureClass) -> Failure {
    Failure { class, code: "test.failed".to_owned(), message: "it failed".to_owned() }
}

/// A step fails for good.
#[must_use]
pub fn failed(name: &str, class: FailureClass) -> StepEvent {
    let result = StepOutcome::Failed { failure: failure(class) };
    let at = at(12).as_millisecond();
    StepEvent::Finished { step_id: step(name), attempt: 1, result, duration_ms: 5, at }
}

/// The operation as it is now.
pub async fn show(store: &dyn Store, operation: &Operation) -> Operation {
    store.operation(&operation.project.project_id, operation.id).await.unwrap().unwrap()
}

/// Leases one task that must be acknowledged within 10 seconds.
pub async fn lease(store: &dyn Store, node: &Node, seconds: i64) -> Lease {
    let mut leases = lease_some(store, node, 1, seconds).await;
    assert_eq!(leases.len(), 1, "there is a ready task");
    leases.remove(0)
}

/// Leases tasks.
pub async fn lease_some(store: &dyn Store, node: &Node, limit: u32, seconds: i64) -> Vec<Lease> {
    let deadline = at(seconds) + SignedDuration::from_secs(10);
    store.lease_tasks(node.id, Wanted::First(limit), deadline, when(seconds)).await.unwrap()
}

/// The key of a lease.
#[must_use]
pub const fn key(node: &Node, lease: &Lease) -> LeaseKey {
    LeaseKey { node_id: node.id, task_id: lease.task_id, epoch: lease.epoch }
}

/// Acknowledges a lease for 30 seconds.
pub async fn acknowledge(store: &dyn Store, node: &Node, lease: &Lease, seconds: i64) -> Verdict {
    let deadline = at(seconds) + SignedDuration::from_secs(30);
    store.acknowledge_lease(key(node, lease), deadline, when(seconds)).await.unwrap()
}

/// Reports one event.
pub async fn report(store: &dyn Store, lease: LeaseKey, sequence: u64, event: StepEvent) -> Verdict {
    let report = Report { lease, sequence, event };
    store.apply_reports(vec![report], when(20)).await.unwrap().remove(0).unwrap()
}

/// An attempt starts.
#[must_use]
pub fn started(name: &str) -> StepEvent {
    StepEvent::Started { step_id: step(name), attempt: 1, at: at(10).as_millisecond() }
}

/// A step succeeds with an output.
#[must_use]
pub fn succeeded(name: &str, output: Value) -> StepEvent {
    StepEvent::Finished {
        step_id: step(name),
        attempt: 1,
        result: StepOutcome::Succeeded { output, changed: true },
        duration_ms: 5,
        at: at(11).as_millisecond(),
    }
}

/// A step writes lines.
#[must_use]
pub fn logged(name: &str, lines: &[&str]) -> StepEvent {
    let line = |text: &&str| LogLine { at: 1, level: LogLevel::Info, text: (*text).to_owned() };
    StepEvent::Log { step_id: step(name), attempt: 1, lines: lines.iter().map(line).collect() }
}

/// Denied calls of the first attempt of a step, made at that second, with these numbers.
#[must_use]
pub fn denied(name: &str, second: i64, numbers: &[u32]) -> StepEvent {
    let denial = |number: &u32| Denial {
        number: *number,
        at: at(second).as_millisecond(),
        capability: "files".to_owned(),
        function: "write".to_owned(),
        rule: "files.write".to_owned(),
        allows: vec!["models".to_owned()],
        subject: format!("config/{number}"),
        dropped: 0,
    };
    let denials = numbers.iter().map(denial).collect();
    StepEvent::Denied { step_id: step(name), attempt: 1, component: Digest::of(b"noop"), denials }
}

/// A node with an operation that it runs.
pub async fn running(store: &dyn Store) -> (Node, Operation, Lease) {
    let node = node(store, 1, 4).await;
    let operation = submit(store, 1, &node).await;
    let lease = lease(store, &node, 5).await;
    assert_eq!(acknowledge(store, &node, &lease, 6).await, Verdict::Accepted);
    (node, operation, lease)
}
