//! Leases that a node holds: acknowledged, extended, resumed. And the fence around them.

use fettle_model::task::Epoch;
use fettle_store::{
    StoreError,
    change::Change,
    context::Context,
    id::{NodeId, TaskId},
    task::{Extended, LeaseKey, Resumed, Verdict},
};
pub(crate) use fettle_store_rows::task::{Fence, Held};
use jiff::Timestamp;

use crate::{error::unavailable, operation::subject, row, writer::Unit};

/// Reads a task.
pub(crate) async fn read(unit: &mut Unit, task_id: TaskId) -> Result<Option<Held>, StoreError> {
    sqlx::query_as(
        "SELECT tasks.node_id AS task_node_id, tasks.status AS task_status, epoch, acknowledged, last_sequence,
             cancel_requested, operation_id, operation_type, version, operations.org_id AS org_id, project_id,
             correlation_id, total_steps, operations.run AS run, trace_parent
         FROM tasks JOIN operations USING (operation_id) WHERE task_id = $1",
    )
    .bind(task_id.to_string())
    .fetch_optional(&mut unit.connection)
    .await
    .map_err(unavailable("task"))
}

/// Moves the deadline of a key's lease and marks it acknowledged; nothing when it is not the task's
/// newest lease. A lease that the node has taken and that expired is held again while no newer one was
/// given: the task is bound to this node, and the same epoch proves that nothing happened in between. Answers the operation,
/// and whether it should be canceled.
async fn hold(unit: &mut Unit, lease: &LeaseKey, deadline: Timestamp) -> Result<Option<(String, i64)>, StoreError> {
    let held = sqlx::query_as(
        "UPDATE tasks SET status = 'leased', deadline = max(coalesce(deadline, 0), $4), acknowledged = 1
         WHERE task_id = $1 AND node_id = $2 AND epoch = $3 AND (status = 'leased' OR (status = 'ready' AND acknowledged = 1))
         RETURNING operation_id, cancel_requested",
    )
    .bind(lease.task_id.to_string())
    .bind(lease.node_id.to_string())
    .bind(i64::try_from(lease.epoch.0).unwrap_or(i64::MAX))
    .bind(deadline.as_millisecond())
    .fetch_optional(&mut unit.connection)
    .await
    .map_err(unavailable("extend_lease"))?;
    unit.announce(Change::Lease);
    Ok(held)
}

/// The operation runs from its first taken task on.
pub(crate) async fn start_operation(unit: &mut Unit, operation_id: &str, context: &Context) -> Result<(), StoreError> {
    let started = sqlx::query(
        "UPDATE operations SET status = 'running', started_at = $2 WHERE operation_id = $1 AND status = 'queued'",
    )
    .bind(operation_id)
    .bind(context.at.as_millisecond())
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("acknowledge_lease"))?;
    if started.rows_affected() > 0 {
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
    let Some((operation_id, cancel_requested)) = hold(unit, &lease, deadline).await? else {
        let verdict = match read(unit, lease.task_id).await? {
            // Another node's task says nothing of itself.
            Some(task) if task.node_id != lease.node_id.to_string() => Verdict::Stale,
            Some(task) if matches!(task.status.as_str(), "ready" | "leased") => Verdict::Stale,
            Some(_) | None => Verdict::Ended,
        };
        return Ok(Extended { verdict, canceled: false });
    };
    start_operation(unit, &operation_id, context).await?;
    Ok(Extended { verdict: Verdict::Accepted, canceled: cancel_requested != 0 })
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
            super::expire::end_lease(unit, &subject, &task_id, node_id, "task.lease_lost", context).await?;
        }
    }
    Ok(())
}
