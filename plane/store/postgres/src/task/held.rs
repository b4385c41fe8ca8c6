//! Leases that a node holds: acknowledged, extended, resumed.

use std::collections::HashMap;

use fettle_model::task::Epoch;
use fettle_store::{
    StoreError,
    change::Change,
    context::Context,
    id::{NodeId, TaskId},
    task::{Extended, LeaseKey, Resumed, Verdict},
};
use fettle_store_rows::subject::Subject;
use fettle_store_rows::task::Fence;
pub(crate) use fettle_store_rows::task::Held;
use jiff::Timestamp;
use serde_json::Value;
use sqlx_macros::FromRow;

use crate::{
    audit,
    lane::Together,
    row,
    unit::{Asking, Unit},
};

/// The facts of an operation.
pub(crate) async fn subject(unit: &mut Unit, operation_id: &str) -> Result<Subject, StoreError> {
    let sql = "SELECT operation_id, operation_type, version, org_id, project_id, correlation_id, total_steps, run,
                   trace_parent
               FROM operations WHERE operation_id = $1";
    let found = unit.look_for(sql, |query: Asking<Subject>| query.bind(operation_id.to_owned())).await?;
    found.ok_or_else(|| StoreError::not_found("operation", operation_id))
}

/// The columns of tasks with their operations.
macro_rules! held {
    ($and:literal) => {
        concat!(
            "SELECT task_id, tasks.node_id AS task_node_id, tasks.status AS task_status, epoch, acknowledged, last_sequence,
                 cancel_requested, inquiry, operation_id, operation_type, version, operations.org_id AS org_id, project_id,
                 correlation_id, total_steps, operations.run AS run, trace_parent
             FROM tasks JOIN operations USING (operation_id) WHERE task_id = ANY($1)",
            $and
        )
    };
}

/// The tasks are locked until the commit, in one order.
const HELD: &str = held!(" ORDER BY task_id FOR NO KEY UPDATE OF tasks");

/// The same without a lock.
pub(super) const LOOK: &str = held!("");

#[derive(FromRow)]
struct HeldTask {
    task_id: String,
    #[sqlx(flatten)]
    held: Held,
}

/// Reads tasks, with their ids, and locks them until the commit; those that are not there are left out.
pub(crate) async fn read_all(unit: &mut Unit, task_ids: Vec<String>) -> Result<Vec<(String, Held)>, StoreError> {
    let rows = unit.look(HELD, |query: Asking<HeldTask>| query.bind(task_ids)).await?;
    Ok(rows.into_iter().map(|HeldTask { task_id, held }| (task_id, held)).collect())
}

/// Reads a task, and locks it until the commit.
pub(crate) async fn read(unit: &mut Unit, task_id: TaskId) -> Result<Option<Held>, StoreError> {
    Ok(read_all(unit, vec![task_id.to_string()]).await?.pop().map(|(_, held)| held))
}

/// Writes down that a step is given a credential.
pub(crate) async fn record_credential(
    unit: &mut Unit,
    lease: &LeaseKey,
    details: &Value,
    context: &Context,
) -> Result<Verdict, StoreError> {
    let held = read(unit, lease.task_id).await?.filter(|held| held.fence(lease) == Fence::Current);
    let Some(held) = held else { return Ok(Verdict::Stale) };
    let context = Context { correlation_id: held.subject.correlation_id.clone(), ..context.clone() };
    let task = format!("tasks/{}", lease.task_id);
    audit::record_with(unit, &context, &held.subject.scope(), "credential.mint", &task, details.clone());
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

#[derive(FromRow)]
struct HeldLease {
    task_id: String,
    node_id: String,
    epoch: i64,
    operation_id: String,
    cancel_requested: i64,
    starts: bool,
}

/// Moves the deadlines of leases and marks them acknowledged, and operations run from their first taken task on;
/// nothing of a lease that is not its task's newest. A lease that the node has taken and that expired is held again
/// while no newer one was given: the task is bound to this node, and the same epoch proves that nothing happened in
/// between.
const HOLD: &str = "
WITH asked AS (
    SELECT task_id, node_id, epoch, max(deadline) AS deadline, min(at) AS at
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[])
        AS asked (task_id, node_id, epoch, deadline, at)
    GROUP BY task_id, node_id, epoch
), locked AS (
    SELECT task_id FROM tasks WHERE task_id = ANY($1) ORDER BY task_id FOR NO KEY UPDATE
), held AS (
    UPDATE tasks SET status = 'leased', deadline = greatest(tasks.deadline, asked.deadline), acknowledged = 1,
        lost_leases = lost_leases - CASE WHEN status = 'ready' THEN 1 ELSE 0 END
    FROM asked
    WHERE (SELECT count(*) FROM locked) > 0
        AND tasks.task_id = asked.task_id AND tasks.node_id = asked.node_id AND tasks.epoch = asked.epoch
        AND (status = 'leased' OR (status = 'ready' AND acknowledged = 1))
    RETURNING tasks.task_id, tasks.node_id, tasks.epoch, operation_id, cancel_requested, asked.at
), started AS (
    UPDATE operations SET status = 'running', started_at = first.at
    FROM (SELECT operation_id, min(at) AS at FROM held GROUP BY operation_id) AS first
    WHERE operations.operation_id = first.operation_id AND status = 'queued'
    RETURNING operations.operation_id
)
SELECT task_id, node_id, epoch, operation_id, cancel_requested,
    operation_id IN (SELECT operation_id FROM started) AS starts
FROM held";

impl Together for Extend {
    const VERB: &'static str = "extend_lease";
    type Asked = Hold;
    type Answer = Extended;

    async fn run(unit: &mut Unit, asked: &[Hold]) -> Result<Vec<Result<Extended, StoreError>>, StoreError> {
        let held = hold(unit, asked).await?;
        for lease in held.iter().filter(|lease| lease.starts) {
            unit.announce(Change::Operation(row::parse("operation", &lease.operation_id)?));
        }
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

async fn hold(unit: &mut Unit, asked: &[Hold]) -> Result<Vec<HeldLease>, StoreError> {
    let text = |of: fn(&Hold) -> String| asked.iter().map(of).collect::<Vec<_>>();
    let number = |of: fn(&Hold) -> i64| asked.iter().map(of).collect::<Vec<_>>();
    // Later deadlines only: the timers of other planes lose nothing.
    unit.announce_here(Change::Lease);
    unit.change(HOLD, |query: Asking<HeldLease>| {
        query
            .bind(text(|hold| hold.lease.task_id.to_string()))
            .bind(text(|hold| hold.lease.node_id.to_string()))
            .bind(number(|hold| epoch(&hold.lease)))
            .bind(number(|hold| hold.deadline.as_millisecond()))
            .bind(number(|hold| hold.at.as_millisecond()))
    })
    .await
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
pub(crate) async fn start_operations(unit: &mut Unit, started: Vec<(String, Timestamp)>) -> Result<(), StoreError> {
    if started.is_empty() {
        return Ok(());
    }
    let (operations, times): (Vec<String>, Vec<i64>) =
        started.into_iter().map(|(operation_id, at)| (operation_id, at.as_millisecond())).unzip();
    let started = unit
        .change(
            "UPDATE operations SET status = 'running', started_at = started.at
             FROM unnest($1::text[], $2::bigint[]) AS started (operation_id, at)
             WHERE operations.operation_id = started.operation_id AND status = 'queued'
             RETURNING operations.operation_id",
            |query: Asking<(String,)>| query.bind(operations).bind(times),
        )
        .await?;
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
    let renewed: Vec<String> = renewed.iter().map(ToString::to_string).collect();
    let lost = unit
        .look(
            "SELECT task_id, operation_id FROM tasks
             WHERE node_id = $1 AND status = 'leased' AND task_id <> ALL($2) ORDER BY task_id FOR NO KEY UPDATE",
            |query: Asking<(String, String)>| query.bind(node_id.to_string()).bind(renewed),
        )
        .await?;
    for (task_id, operation_id) in lost {
        let subject = subject(unit, &operation_id).await?;
        super::expire::end_lease(unit, &subject, (&task_id, node_id, most), "task.lease_lost", context).await?;
    }
    Ok(())
}
