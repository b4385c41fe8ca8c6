//! What the SQLite store witnesses: each fact once, when it is durable.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use fettle_model::{
    failure::{Failure, FailureClass},
    operation::{OperationStatus, StepOutcome, StepStatus},
    task::{StepEvent, TaskOutcome},
};
use fettle_store::{
    change::{Change, Listener},
    fact::{About, Fact},
    laws::fixture::{self, TRACE_PARENT, key, running, step, when},
    operation::OperationStore as _,
    task::TaskStore as _,
};
use fettle_store_sqlite::SqliteStore;

#[derive(Default)]
struct Heard {
    facts: Mutex<Vec<Fact>>,
    changes: Mutex<Vec<Change>>,
    verbs: Mutex<Vec<&'static str>>,
    writes: Mutex<usize>,
}

impl Listener for Heard {
    fn changed(&self, change: &Change) {
        self.changes.lock().unwrap().push(change.clone());
    }

    fn witnessed(&self, fact: &Fact) {
        self.facts.lock().unwrap().push(fact.clone());
    }

    fn answered(&self, verb: &'static str, _took: Duration) {
        self.verbs.lock().unwrap().push(verb);
    }

    fn committed(&self, writes: usize) {
        *self.writes.lock().unwrap() += writes;
    }
}

async fn open() -> (tempfile::TempDir, SqliteStore, Arc<Heard>) {
    let directory = tempfile::tempdir().unwrap();
    let heard = Arc::new(Heard::default());
    let store = SqliteStore::open(&directory.path().join("plane.db"), Arc::<Heard>::clone(&heard)).await.unwrap();
    (directory, store, heard)
}

fn failure() -> Failure {
    Failure::new(FailureClass::Permanent, "test.failed", "it failed")
}

#[tokio::test]
async fn each_fact_is_witnessed_once_with_all_that_a_log_says_of_it() {
    let (_directory, store, heard) = open().await;
    let (node, operation, lease) = running(&store).await;
    let failed = StepEvent::Finished {
        step_id: step("first"),
        attempt: 2,
        result: StepOutcome::Failed { failure: failure() },
        duration_ms: 7,
        at: 1,
    };
    for _ in 0..2 {
        fixture::report(&store, key(&node, &lease), 1, failed.clone()).await;
        let outcome = TaskOutcome::Failed { failure: failure(), step_id: Some(step("first")) };
        store.finish_task(key(&node, &lease), outcome, when(30)).await.unwrap();
    }
    let about = About {
        operation_id: operation.id.to_string(),
        operation_type: "test.noop".to_owned(),
        org_id: "default".to_owned(),
        project_id: "demo".to_owned(),
        correlation_id: "law".to_owned(),
        resource_name: format!("projects/demo/operations/{}", operation.id),
        trace_parent: Some(TRACE_PARENT.to_owned()),
    };
    let code = Some("test.failed".to_owned());
    let expected = vec![
        Fact::OperationRequested { about: about.clone() },
        Fact::TaskLeased { about: about.clone(), task_id: lease.task_id.to_string(), epoch: 1 },
        Fact::StepEnded {
            about: about.clone(),
            step_id: "first".to_owned(),
            step_kind: "test.noop@v1".to_owned(),
            attempt_number: 2,
            status: StepStatus::Failed,
            error_code: code.clone(),
            duration_ms: 7,
        },
        Fact::OperationEnded { about, status: OperationStatus::Failed, error_code: code },
    ];
    assert_eq!(*heard.facts.lock().unwrap(), expected);
}

#[tokio::test]
async fn what_was_refused_is_not_witnessed_and_every_write_is_timed() {
    let (_directory, store, heard) = open().await;
    let (node, _, lease) = running(&store).await;
    heard.facts.lock().unwrap().clear();
    let early = store.finish_task(key(&node, &lease), TaskOutcome::Succeeded, when(30)).await;
    assert!(early.is_err(), "a step has not succeeded");
    store.expire_leases(when(3000)).await.unwrap();
    let facts = heard.facts.lock().unwrap().clone();
    assert!(
        matches!(&facts[..], [Fact::LeaseEnded { task_id, action: "task.lease_expire", .. }] if *task_id == lease.task_id.to_string()),
        "{facts:#?}"
    );
    let verbs = heard.verbs.lock().unwrap().clone();
    assert!(["create_operation", "lease_tasks", "finish_task"].iter().all(|verb| verbs.contains(verb)), "{verbs:?}");
    assert_eq!(*heard.writes.lock().unwrap(), verbs.len(), "each write is part of one commit");
}

/// Its slot is free, and another task may wait for it.
#[tokio::test]
async fn a_node_is_woken_when_the_lease_of_a_canceled_task_ends() {
    let (_directory, store, heard) = open().await;
    let (node, operation, _lease) = running(&store).await;
    store.cancel_operation(&operation.project.project_id, operation.id, when(7)).await.unwrap();
    heard.changes.lock().unwrap().clear();
    assert_eq!(store.expire_leases(when(1000)).await.unwrap(), 1);
    assert!(heard.changes.lock().unwrap().contains(&Change::TaskReady(node.id)));
}
