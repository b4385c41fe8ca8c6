//! Leases that a node holds: acknowledged, extended, resumed. And the fence around them.

use std::collections::HashMap;

use fettle_model::task::Epoch;
use fettle_store::{
    StoreError,
    change::Change,
    context::Context,
    id::{NodeId, TaskId},
    task::{Extended, LeaseKey, Resumed, Verdict},
};
use fettle_store_rows::task::Fence;
pub(crate) use fettle_store_rows::task::Held;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use sqlx::{Executor, Sqlite, SqliteConnection};

use crate::{audit, error::unavailable, lane::Together, list, operation::subject, row, writer::Unit};

/// Tasks with their operations, as pairs of id and [`Held`].
macro_rules! held {
    ($which:literal) => {
        concat!(
            "SELECT json_group_array(json_array(task_id, json_array(tasks.node_id, tasks.status, epoch, acknowledged,
                 last_sequence, cancel_requested, inquiry, json_array(operation_id, operation_type, version,
                 operations.org_id, project_id, correlation_id, total_steps, operations.run, trace_parent))))
             FROM tasks JOIN operations USING (operation_id) WHERE ",
            $which
        )
    };
}
pub(crate) use held;

/// Reads a task.
pub(crate) async fn read(unit: &mut Unit, task_id: TaskId) -> Result<Option<Held>, StoreError> {
    one(&mut unit.connection, task_id).await
}

async fn one(connection: impl Executor<'_, Database = Sqlite>, task_id: TaskId) -> Result<Option<Held>, StoreError> {
    let statement = sqlx::query_scalar(held!("task_id = $1")).bind(task_id.to_string());
    let found: Vec<(String, Held)> = list::read(connection, ("task", "task"), statement).await?;
    Ok(found.into_iter().next().map(|(_, held)| held))
}

/// The same beside the writer.
pub(crate) async fn look(reader: &mut SqliteConnection, task_id: TaskId) -> Result<Option<Held>, StoreError> {
    one(reader, task_id).await
}

/// Writes down that a step is given a credential.
pub(crate) async fn record_credential(
    unit: &mut Unit,
    lease: &LeaseKey,
    details: Value,
    context: &Context,
) -> Result<Verdict, StoreError> {
    let held = read(unit, lease.task_id).await?.filter(|held| held.fence(lease) == Fence::Current);
    let Some(held) = held else { return Ok(Verdict::Stale) };
    let context = Context { correlation_id: held.subject.correlation_id.clone(), ..context.clone() };
    let task = format!("tasks/{}", lease.task_id);
    audit::record_with(unit, &context, &held.subject.scope(), "credential.mint", &task, details);
    Ok(Verdict::Accepted)
}

/// Acknowledgements and extensions: what holds a lease has taken its task.
pub(crate) struct Extend;

/// A lease, and until when it is to be held.
pub(crate) struct Hold {
    pub(crate) lease: LeaseKey,
    pub(crate) deadline: Timestamp,
    pub(crate) at: Timestamp,
}

#[derive(Deserialize)]
struct HeldLease {
    task_id: String,
    node_id: String,
    epoch: i64,
    operation_id: String,
    cancel_requested: i64,
    operation_status: String,
}

impl Together for Extend {
    const VERB: &'static str = "extend_lease";
    type Asked = Hold;
    type Answer = Extended;

    async fn run(unit: &mut Unit, asked: &[Hold]) -> Result<Vec<Result<Extended, StoreError>>, StoreError> {
        let held = hold(unit, asked).await?;
        let key = |held: &HeldLease| (held.task_id.clone(), held.node_id.clone(), held.epoch);
        let held: HashMap<_, _> = held.into_iter().map(|held| (key(&held), held)).collect();
        let mut answers = Vec::with_capacity(asked.len());
        for Hold { lease, .. } in asked {
            let extended = match held.get(&(lease.task_id.to_string(), lease.node_id.to_string(), epoch(lease))) {
                Some(held) => Extended { verdict: Verdict::Accepted, canceled: held.cancel_requested != 0 },
                None => Extended { verdict: not_held(unit, lease).await?, canceled: false },
            };
            answers.push(Ok(extended));
        }
        Ok(answers)
    }
}

fn epoch(lease: &LeaseKey) -> i64 {
    i64::try_from(lease.epoch.0).unwrap_or(i64::MAX)
}

/// What is asked of leases that are their tasks' newest. A lease that the node has taken and that expired is held again
/// while no newer one was given: the task is bound to this node, and the same epoch proves that nothing happened in between.
macro_rules! asked {
    () => {
        "WITH asked AS (
             SELECT value ->> 0 AS task_id, value ->> 1 AS node_id, value ->> 2 AS epoch, max(value ->> 3) AS deadline,
                 min(value ->> 4) AS at
             FROM json_each($1) GROUP BY 1, 2, 3),
         held AS MATERIALIZED (
             SELECT asked.*, operation_id, cancel_requested
             FROM asked CROSS JOIN tasks USING (task_id)
             WHERE tasks.node_id = asked.node_id AND tasks.epoch = asked.epoch
                 AND (status = 'leased' OR (status = 'ready' AND acknowledged = 1))) "
    };
}

/// Moves the deadlines of leases and marks them acknowledged; their operations run from then on.
const HOLD: &str = concat!(
    asked!(),
    "SELECT json_group_array(json_array(task_id, node_id, epoch, operation_id, cancel_requested, status))
     FROM held JOIN operations USING (operation_id);",
    asked!(),
    "UPDATE operations SET status = 'running', started_at = held.at FROM held
     WHERE operations.operation_id = held.operation_id AND status = 'queued';",
    asked!(),
    "UPDATE tasks SET status = 'leased', deadline = max(coalesce(tasks.deadline, 0), held.deadline), acknowledged = 1,
         lost_leases = lost_leases - iif(status = 'ready', 1, 0)
     FROM held WHERE tasks.task_id = held.task_id"
);

async fn hold(unit: &mut Unit, asked: &[Hold]) -> Result<Vec<HeldLease>, StoreError> {
    let leases = asked.iter().map(|Hold { lease, deadline, at }| {
        let (task_id, node_id) = (lease.task_id.to_string(), lease.node_id.to_string());
        (task_id, node_id, epoch(lease), deadline.as_millisecond(), at.as_millisecond())
    });
    let statement = sqlx::query_scalar(HOLD).bind(row::text("lease", &leases.collect::<Vec<_>>())?);
    let held: Vec<HeldLease> = list::read(&mut unit.connection, (Extend::VERB, "lease"), statement).await?;
    for lease in held.iter().filter(|lease| lease.operation_status == "queued") {
        unit.announce(Change::Operation(row::parse("operation", &lease.operation_id)?));
    }
    unit.announce(Change::Lease);
    Ok(held)
}

async fn not_held(unit: &mut Unit, lease: &LeaseKey) -> Result<Verdict, StoreError> {
    Ok(match read(unit, lease.task_id).await? {
        // Another node's task says nothing of itself.
        Some(task) if task.node_id != lease.node_id.to_string() => Verdict::Stale,
        Some(task) if matches!(task.status.as_str(), "ready" | "leased") => Verdict::Stale,
        Some(_) | None => Verdict::Ended,
    })
}

/// Operations run from their first taken task on.
pub(crate) async fn start_operations(unit: &mut Unit, started: &[(String, Timestamp)]) -> Result<(), StoreError> {
    if started.is_empty() {
        return Ok(());
    }
    let started: Vec<_> = started.iter().map(|(operation_id, at)| (operation_id, at.as_millisecond())).collect();
    let statement = sqlx::query_scalar(
        "SELECT json_group_array(operation_id) FROM operations
         WHERE operation_id IN (SELECT value ->> 0 FROM json_each($1)) AND status = 'queued';
         UPDATE operations SET status = 'running', started_at = started.value ->> 1 FROM json_each($1) AS started
         WHERE operation_id = started.value ->> 0 AND status = 'queued'",
    );
    let statement = statement.bind(row::text("operation", &started)?);
    let started: Vec<String> = list::read(&mut unit.connection, (Extend::VERB, "operation"), statement).await?;
    for operation_id in started {
        unit.announce(Change::Operation(row::parse("operation", &operation_id)?));
    }
    Ok(())
}

pub(crate) async fn resume(
    unit: &mut Unit,
    node_id: NodeId,
    held: &[TaskId],
    (deadline, most): (Timestamp, u32),
    context: &Context,
) -> Result<Resumed, StoreError> {
    let mut resumed = Resumed::default();
    for task_id in held {
        match read(unit, *task_id).await? {
            Some(task) if task.node_id == node_id.to_string() && task.status == "leased" => {
                let epoch = Epoch(row::number("task", task.epoch)?);
                let lease = LeaseKey { node_id, task_id: *task_id, epoch };
                Extend::run(unit, &[Hold { lease, deadline, at: context.at }]).await?;
                resumed.renewed.push(*task_id);
            }
            // It will be leased again, under a new epoch.
            Some(task) if task.node_id == node_id.to_string() && task.status == "ready" => {}
            Some(_) | None => resumed.dropped.push(*task_id),
        }
    }
    return_lost(unit, node_id, &resumed.renewed, most, context).await?;
    Ok(resumed)
}

/// Leases that the node does not hold never arrived, or it lost them.
async fn return_lost(
    unit: &mut Unit,
    node_id: NodeId,
    renewed: &[TaskId],
    most: u32,
    context: &Context,
) -> Result<(), StoreError> {
    let leased: Vec<(String, String)> = sqlx::query_as(
        "SELECT task_id, operation_id FROM tasks WHERE node_id = $1 AND status = 'leased' ORDER BY task_id",
    )
    .bind(node_id.to_string())
    .fetch_all(&mut unit.connection)
    .await
    .map_err(unavailable("resume_leases"))?;
    for (task_id, operation_id) in leased {
        if !renewed.contains(&row::parse("task", &task_id)?) {
            let subject = subject::read(unit, &operation_id).await?;
            super::expire::end_lease(unit, &subject, (&task_id, node_id, most), "task.lease_lost", context).await?;
        }
    }
    Ok(())
}
