//! Leases that a node holds: acknowledged, extended, resumed.

use fettle_model::task::Epoch;
use fettle_store::{
    StoreError,
    change::Change,
    context::Context,
    id::{NodeId, TaskId},
    task::{Extended, LeaseKey, Resumed, Verdict},
};
use fettle_store_rows::subject::Subject;
pub(crate) use fettle_store_rows::task::{Fence, Held};
use jiff::Timestamp;

use crate::{
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

/// Reads a task, and locks it until the commit.
pub(crate) async fn read(unit: &mut Unit, task_id: TaskId) -> Result<Option<Held>, StoreError> {
    let sql = "SELECT tasks.node_id AS task_node_id, tasks.status AS task_status, epoch, acknowledged, last_sequence,
                   cancel_requested, operation_id, operation_type, version, operations.org_id AS org_id, project_id,
                   correlation_id, total_steps, operations.run AS run, trace_parent
               FROM tasks JOIN operations USING (operation_id) WHERE task_id = $1 FOR NO KEY UPDATE OF tasks";
    unit.look_for(sql, |query: Asking<Held>| query.bind(task_id.to_string())).await
}

/// Moves the deadline of a key's lease and marks it acknowledged, and the operation runs from its first taken task
/// on; nothing when it is not the task's newest lease. A lease that the node has taken and that expired is held
/// again while no newer one was given: the task is bound to this node, and the same epoch proves that nothing
/// happened in between. Answers the operation, whether it should be canceled, and whether it runs only now.
const HOLD: &str = "
WITH held AS (
    UPDATE tasks SET status = 'leased', deadline = greatest(deadline, $4), acknowledged = 1
    WHERE task_id = $1 AND node_id = $2 AND epoch = $3
        AND (status = 'leased' OR (status = 'ready' AND acknowledged = 1))
    RETURNING operation_id, cancel_requested
), started AS (
    UPDATE operations SET status = 'running', started_at = $5 FROM held
    WHERE operations.operation_id = held.operation_id AND status = 'queued'
    RETURNING operations.operation_id
)
SELECT operation_id, cancel_requested, EXISTS (SELECT 1 FROM started) FROM held";

/// The operation runs from its first taken task on.
pub(crate) async fn start_operation(unit: &mut Unit, operation_id: &str, context: &Context) -> Result<(), StoreError> {
    let at = context.at.as_millisecond();
    let started = unit
        .execute(
            "UPDATE operations SET status = 'running', started_at = $2 WHERE operation_id = $1 AND status = 'queued'",
            |query| query.bind(operation_id.to_owned()).bind(at),
        )
        .await?;
    if started > 0 {
        unit.announce(Change::Operation(row::parse("operation", operation_id)?));
    }
    Ok(())
}

/// The same for an acknowledgement and for an extension: what holds a lease has taken its task.
pub(crate) async fn extend(
    unit: &mut Unit,
    lease: LeaseKey,
    deadline: Timestamp,
    context: &Context,
) -> Result<Extended, StoreError> {
    let held = unit
        .change_one(HOLD, |query: Asking<(String, i64, bool)>| {
            query
                .bind(lease.task_id.to_string())
                .bind(lease.node_id.to_string())
                .bind(i64::try_from(lease.epoch.0).unwrap_or(i64::MAX))
                .bind(deadline.as_millisecond())
                .bind(context.at.as_millisecond())
        })
        .await?;
    // Later deadlines only: the timers of other planes lose nothing.
    unit.announce_here(Change::Lease);
    let Some((operation_id, cancel_requested, started)) = held else {
        return Ok(Extended { verdict: not_held(unit, &lease).await?, canceled: false });
    };
    if started {
        unit.announce(Change::Operation(row::parse("operation", &operation_id)?));
    }
    Ok(Extended { verdict: Verdict::Accepted, canceled: cancel_requested != 0 })
}

async fn not_held(unit: &mut Unit, lease: &LeaseKey) -> Result<Verdict, StoreError> {
    Ok(match read(unit, lease.task_id).await? {
        // Another node's task says nothing of itself.
        Some(task) if task.node_id != lease.node_id.to_string() => Verdict::Stale,
        Some(task) if matches!(task.status.as_str(), "ready" | "leased") => Verdict::Stale,
        Some(_) | None => Verdict::Ended,
    })
}

pub(crate) async fn resume(
    unit: &mut Unit,
    node_id: NodeId,
    held: &[TaskId],
    deadline: Timestamp,
    context: &Context,
) -> Result<Resumed, StoreError> {
    let mut resumed = Resumed::default();
    for task_id in held {
        match read(unit, *task_id).await? {
            Some(task) if task.node_id == node_id.to_string() && task.status == "leased" => {
                let epoch = Epoch(row::number("task", task.epoch)?);
                extend(unit, LeaseKey { node_id, task_id: *task_id, epoch }, deadline, context).await?;
                resumed.renewed.push(*task_id);
            }
            // It will be leased again, under a new epoch.
            Some(task) if task.node_id == node_id.to_string() && task.status == "ready" => {}
            Some(_) | None => resumed.dropped.push(*task_id),
        }
    }
    return_lost(unit, node_id, &resumed.renewed, context).await?;
    Ok(resumed)
}

/// Leases that the node does not hold never arrived, or it lost them.
async fn return_lost(
    unit: &mut Unit,
    node_id: NodeId,
    renewed: &[TaskId],
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
        super::expire::end_lease(unit, &subject, &task_id, node_id, "task.lease_lost", context).await?;
    }
    Ok(())
}
