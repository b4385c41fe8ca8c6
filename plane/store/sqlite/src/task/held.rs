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
use serde_json::Value;
use sqlx::SqlitePool;
use sqlx_macros::FromRow;

use crate::{audit, error::unavailable, lane::Together, operation::subject, row, writer::Unit};

/// The columns of a task with its operation.
macro_rules! held {
    ($which:literal) => {
        concat!(
            "SELECT tasks.node_id AS task_node_id, tasks.status AS task_status, epoch, acknowledged, last_sequence,
                 cancel_requested, inquiry, operation_id, operation_type, version, operations.org_id AS org_id, project_id,
                 correlation_id, total_steps, operations.run AS run, trace_parent, task_id
             FROM tasks JOIN operations USING (operation_id) WHERE ",
            $which
        )
    };
}

/// Reads a task.
pub(crate) async fn read(unit: &mut Unit, task_id: TaskId) -> Result<Option<Held>, StoreError> {
    sqlx::query_as(held!("task_id = $1"))
        .bind(task_id.to_string())
        .fetch_optional(&mut unit.connection)
        .await
        .map_err(unavailable("task"))
}

/// The same beside the writer.
pub(crate) async fn look(readers: &SqlitePool, task_id: TaskId) -> Result<Option<Held>, StoreError> {
    sqlx::query_as(held!("task_id = $1"))
        .bind(task_id.to_string())
        .fetch_optional(readers)
        .await
        .map_err(unavailable("task"))
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

/// Reads tasks, with their ids; those that are not there are left out.
pub(crate) async fn read_all(unit: &mut Unit, task_ids: &[String]) -> Result<Vec<(String, Held)>, StoreError> {
    let rows: Vec<HeldTask> = sqlx::query_as(held!("task_id IN (SELECT value FROM json_each($1))"))
        .bind(row::text("task", &task_ids)?)
        .fetch_all(&mut unit.connection)
        .await
        .map_err(unavailable("task"))?;
    Ok(rows.into_iter().map(|HeldTask { task_id, held }| (task_id, held)).collect())
}

#[derive(FromRow)]
struct HeldTask {
    task_id: String,
    #[sqlx(flatten)]
    held: Held,
}

/// Acknowledgements and extensions: what holds a lease has taken its task.
pub(crate) struct Extend;

/// A lease, and until when it is to be held.
pub(crate) struct Hold {
    pub(crate) lease: LeaseKey,
    pub(crate) deadline: Timestamp,
    pub(crate) at: Timestamp,
}

#[derive(FromRow)]
struct HeldLease {
    task_id: String,
    node_id: String,
    epoch: i64,
    operation_id: String,
    cancel_requested: i64,
}

impl Together for Extend {
    const VERB: &'static str = "extend_lease";
    type Asked = Hold;
    type Answer = Extended;

    async fn run(unit: &mut Unit, asked: &[Hold]) -> Result<Vec<Result<Extended, StoreError>>, StoreError> {
        let held = hold(unit, asked).await?;
        let key = |held: &HeldLease| (held.task_id.clone(), held.node_id.clone(), held.epoch);
        let held: HashMap<_, _> = held.into_iter().map(|held| (key(&held), held)).collect();
        let (mut answers, mut started) = (Vec::with_capacity(asked.len()), Vec::new());
        for Hold { lease, at, .. } in asked {
            let extended = match held.get(&(lease.task_id.to_string(), lease.node_id.to_string(), epoch(lease))) {
                Some(held) => {
                    started.push((held.operation_id.clone(), *at));
                    Extended { verdict: Verdict::Accepted, canceled: held.cancel_requested != 0 }
                }
                None => Extended { verdict: not_held(unit, lease).await?, canceled: false },
            };
            answers.push(Ok(extended));
        }
        start_operations(unit, &started).await?;
        Ok(answers)
    }
}

fn epoch(lease: &LeaseKey) -> i64 {
    i64::try_from(lease.epoch.0).unwrap_or(i64::MAX)
}

/// Moves the deadlines of leases and marks them acknowledged; nothing of one that is not its task's newest. A lease
/// that the node has taken and that expired is held again while no newer one was given: the task is bound to this node,
/// and the same epoch proves that nothing happened in between.
async fn hold(unit: &mut Unit, asked: &[Hold]) -> Result<Vec<HeldLease>, StoreError> {
    let leases = asked.iter().map(|Hold { lease, deadline, .. }| {
        (lease.task_id.to_string(), lease.node_id.to_string(), epoch(lease), deadline.as_millisecond())
    });
    let held = sqlx::query_as(
        "WITH asked AS (
             SELECT value ->> 0 AS task_id, value ->> 1 AS node_id, value ->> 2 AS epoch, max(value ->> 3) AS deadline
             FROM json_each($1) GROUP BY 1, 2, 3)
         UPDATE tasks SET status = 'leased', deadline = max(coalesce(tasks.deadline, 0), asked.deadline),
             acknowledged = 1, lost_leases = lost_leases - iif(status = 'ready', 1, 0)
         FROM asked
         WHERE tasks.task_id = asked.task_id AND tasks.node_id = asked.node_id AND tasks.epoch = asked.epoch
             AND (status = 'leased' OR (status = 'ready' AND acknowledged = 1))
         RETURNING task_id, node_id, epoch, operation_id, cancel_requested",
    )
    .bind(row::text("lease", &leases.collect::<Vec<_>>())?)
    .fetch_all(&mut unit.connection)
    .await
    .map_err(unavailable(Extend::VERB))?;
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
    let started: Vec<(String,)> = sqlx::query_as(
        "UPDATE operations SET status = 'running', started_at = started.value ->> 1 FROM json_each($1) AS started
         WHERE operation_id = started.value ->> 0 AND status = 'queued' RETURNING operation_id",
    )
    .bind(row::text("operation", &started)?)
    .fetch_all(&mut unit.connection)
    .await
    .map_err(unavailable("acknowledge_lease"))?;
    for (operation_id,) in started {
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
