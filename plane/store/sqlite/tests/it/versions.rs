//! A database of an earlier version is taken over whole, with what it was in the middle of.

use std::{path::Path, sync::Arc};

use fettle_model::{
    operation::{OperationStatus, StepStatus},
    task::{Epoch, TaskOutcome},
};
use fettle_store::{
    Health as _,
    audit::AuditStore as _,
    event::EventStore as _,
    laws::fixture::{self, all, at, report, step, succeeded, when},
    log::LogStore as _,
    node::NodeStore as _,
    operation::{NewOperation, OperationStore as _, Terms, TriggerSource},
    task::{LeaseKey, TaskStore as _, Verdict},
};
use fettle_store_sqlite::SqliteStore;
use serde_json::json;
use sqlx::{Connection as _, SqliteConnection, migrate::Migrator, sqlite::SqliteConnectOptions};

static ALL: Migrator = sqlx_macros::migrate!("./migrations");

const JOIN_TOKEN: &str = "INSERT INTO join_tokens (join_token_id, secret_hash, uses_left, created_at, expires_at)
    VALUES ('J', 'hash', 1, 1, 9)";

/// An operation of two steps that its node runs: the first has succeeded. Columns of the first version only.
async fn fill(connection: &mut SqliteConnection, version: i64) {
    let node = fixture::joining(1, "node-1", 2);
    let plain = fettle_store::node::Node {
        id: node.id,
        facts: node.facts.clone(),
        owner: None,
        registered_at: at(0),
        last_heartbeat_at: None,
        running_tasks: 0,
        certificate: None,
        revoked_at: None,
    };
    let new = fixture::new_operation(1, &plain, Some("key"));
    let status = if version < 4 { "active" } else { "published" };
    let rows = [
        "INSERT INTO projects VALUES ('demo', 'default', 1)".to_owned(),
        JOIN_TOKEN.to_owned(),
        format!(
            "INSERT INTO nodes (node_id, name, secret_hash, join_token_id, host_version, capabilities, slots,
                 registered_at) VALUES ('{}', 'node-1', '{}', 'J', '1', '{{}}', 2, 1)",
            node.id,
            node.hash.hex()
        ),
        "INSERT INTO operation_definitions VALUES ('test.noop', 1)".to_owned(),
        format!(
            "INSERT INTO operation_definition_versions VALUES ('01ARZ3NDEKTSV4RRFFQ69G5FAV', 'test.noop', 'v1', 1,
                 '{}', '{}', '{}', '{status}', 1, 'somebody')",
            text(&fixture::sources("localhost:5000", "1")),
            text(&fixture::definition()),
            text(&fixture::catalog()),
        ),
        format!(
            "INSERT INTO operations (operation_id, operation_type, version, org_id, project_id, requested_by_user_id,
                 target_selector, idempotency_key, request_digest, correlation_id, trigger_source, linked_node_id,
                 sources, inputs, plan_digest, total_steps, status, created_at, started_at)
             VALUES ('{}', 'test.noop', 'v1', 'default', 'demo', 'somebody', '{{\"node\":\"node-1\"}}', 'key', '{}',
                 'law', 'tenant_request', '{}', '{}', '{}', '{}', 2, 'running', {}, {})",
            new.id,
            new.request_digest,
            node.id,
            text(&new.plan.graph.sources),
            text(&new.plan.inputs),
            new.plan_digest,
            at(1).as_millisecond(),
            at(2).as_millisecond(),
        ),
        format!(
            "INSERT INTO tasks (task_id, operation_id, node_id, status, epoch, deadline, acknowledged, last_sequence)
             VALUES ('{}', '{}', '{}', 'leased', 3, {}, 1, 2)",
            new.tasks[0].id,
            new.id,
            node.id,
            at(60).as_millisecond()
        ),
        format!(
            "INSERT INTO operation_logs (operation_id, step_id, attempt, at, level, text)
             VALUES ('{}', 'first', 1, 5, 'info', 'a line')",
            new.id
        ),
        format!(
            "INSERT INTO outbox_events (operation_id, kind, at, payload) VALUES ('{}', 'operation.requested', 1, '{{}}')",
            new.id
        ),
        "INSERT INTO audit_logs (at, actor, scope, action, resource_name, result, correlation_id)
         VALUES (1, 'somebody', 'default/demo', 'operation.create', 'x', 'ok', 'law')"
            .to_owned(),
    ];
    for row in rows {
        sqlx::query(sqlx::AssertSqlSafe(row)).execute(&mut *connection).await.unwrap();
    }
    if version >= 5 {
        for later in
            ["UPDATE operation_logs SET node_id = $1", "UPDATE tasks SET org_id = 'default' WHERE node_id = $1"]
        {
            sqlx::query(later).bind(node.id.to_string()).execute(&mut *connection).await.unwrap();
        }
    }
    fill_steps(connection, &new).await;
}

/// The first has succeeded, the second waits.
async fn fill_steps(connection: &mut SqliteConnection, new: &NewOperation) {
    for (index, (name, status, outcome)) in [
        ("first", "succeeded", Some(json!({"outcome": "succeeded", "output": {"path": "x"}, "changed": true}))),
        ("second", "pending", None),
    ]
    .into_iter()
    .enumerate()
    {
        sqlx::query(
            "INSERT INTO operation_steps (task_id, operation_id, step_index, step_id, kind, component, needs, status,
                 attempt_number, outcome, finished_at)
             VALUES ($1, $2, $3, $4, 'test.noop@v1', $5, '[]', $6, $7, $8, $9)",
        )
        .bind(new.tasks[0].id.to_string())
        .bind(new.id.to_string())
        .bind(i64::try_from(index).unwrap())
        .bind(name)
        .bind(new.plan.graph.steps[0].component.to_string())
        .bind(status)
        .bind(i64::from(outcome.is_some()))
        .bind(outcome.as_ref().map(ToString::to_string))
        .bind(outcome.as_ref().map(|_| at(9).as_millisecond()))
        .execute(&mut *connection)
        .await
        .unwrap();
    }
}

/// A document as it is stored.
fn text(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

async fn of_version(file: &Path, count: usize) {
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    let mut earlier = Migrator::DEFAULT;
    earlier.migrations = ALL.migrations[..count].to_vec().into();
    earlier.run(&mut connection).await.unwrap();
    fill(&mut connection, ALL.migrations[count - 1].version).await;
    connection.close().await.unwrap();
}

#[tokio::test]
async fn a_database_of_any_earlier_version_goes_on_where_it_was() {
    for count in 1..ALL.migrations.len() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("plane.db");
        of_version(&file, count).await;
        let store = SqliteStore::open(&file, Arc::new(())).await.unwrap();
        let project = fixture::project("demo").project_id;
        let operation = store.operation_by_key(&project, "key").await.unwrap().unwrap();
        let node = store.node_by_name("node-1").await.unwrap().unwrap();
        assert_eq!((operation.total_nodes, operation.run, operation.linked_node_id), (1, 1, Some(node.id)));
        assert_eq!((&operation.terms, operation.trigger_source), (&Terms::default(), TriggerSource::TenantRequest));
        let logs = store.logs(operation.id, Some(node.id), None, all()).await.unwrap();
        assert_eq!(logs.len(), 1, "{count}: the line is its node's");
        assert_eq!(store.events(operation.id, all()).await.unwrap().len(), 1);
        assert_eq!(store.audit(all()).await.unwrap().len(), 1);

        // What its node held goes on, to its end.
        let task = store.node_tasks(operation.id, at(0)).await.unwrap().remove(0);
        let lease = LeaseKey { node_id: node.id, task_id: task.id, epoch: Epoch(3) };
        let extended = store.extend_lease(lease, at(120), when(50)).await.unwrap();
        assert_eq!(extended.verdict, Verdict::Accepted);
        assert_eq!(report(&store, lease, 3, succeeded("second", json!({}))).await, Verdict::Accepted);
        let verdict = store.finish_task(lease, TaskOutcome::Succeeded, when(51)).await.unwrap();
        assert_eq!(verdict, Verdict::Accepted);
        let over = store.operation(&project, operation.id).await.unwrap().unwrap();
        assert_eq!(over.state.status(), OperationStatus::Succeeded, "{count}");
        let steps = store.steps(operation.id).await.unwrap();
        assert!(steps.iter().all(|step| step.state.status() == StepStatus::Succeeded && step.node_id == node.id));
        assert_eq!(steps[0].id, step("first"));
        store.close().await;
    }
}
