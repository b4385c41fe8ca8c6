//! Leases that a node holds: acknowledged, extended, resumed. And the fence around them.

use fettle_store::{
    StoreError,
    change::Change,
    context::Context,
    id::{NodeId, TaskId},
    task::{Extended, LeaseKey, Resumed, Verdict},
};
use jiff::Timestamp;
use sqlx::FromRow;

use crate::{error::unavailable, operation::subject::Subject, row, writer::Unit};

/// Where a task is.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct Held {
    pub(crate) operation_id: String,
    pub(crate) node_id: String,
    pub(crate) status: String,
    pub(crate) epoch: i64,
    pub(crate) acknowledged: i64,
    pub(crate) last_sequence: i64,
    pub(crate) cancel_requested: i64,
}

/// How a lease key stands to its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    /// The lease is the task's current one.
    Current,
    /// The task ended under this lease.
    Ended,
    /// Anything else.
    Stale,
}

impl Held {
    /// Reads a task.
    pub(crate) async fn read(unit: &mut Unit, task_id: TaskId) -> Result<Option<Self>, StoreError> {
        sqlx::query_as(
            "SELECT operation_id, node_id, status, epoch, acknowledged, last_sequence, cancel_requested
             FROM tasks WHERE task_id = $1",
        )
        .bind(task_id.to_string())
        .fetch_optional(&mut unit.connection)
        .await
        .map_err(unavailable("task"))
    }

    /// Compares a key with the task.
    pub(crate) fn fence(&self, lease: &LeaseKey) -> Fence {
        let same_epoch = u64::try_from(self.epoch).is_ok_and(|epoch| epoch == lease.epoch.0);
        match self.status.as_str() {
            _ if self.node_id != lease.node_id.to_string() || !same_epoch => Fence::Stale,
            "leased" => Fence::Current,
            "ready" => Fence::Stale,
            _ => Fence::Ended,
        }
    }
}

/// The task of a key, when the key is its current lease.
pub(crate) async fn current(unit: &mut Unit, lease: &LeaseKey) -> Result<Option<Held>, StoreError> {
    let held = Held::read(unit, lease.task_id).await?;
    Ok(held.filter(|held| held.fence(lease) == Fence::Current))
}

async fn set_deadline(unit: &mut Unit, task_id: TaskId, deadline: Timestamp) -> Result<(), StoreError> {
    sqlx::query("UPDATE tasks SET deadline = max(deadline, $2), acknowledged = 1 WHERE task_id = $1")
        .bind(task_id.to_string())
        .bind(deadline.as_millisecond())
        .execute(&mut unit.connection)
        .await
        .map_err(unavailable("extend_lease"))?;
    unit.announce(Change::Lease);
    Ok(())
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

pub(crate) async fn acknowledge(
    unit: &mut Unit,
    lease: LeaseKey,
    deadline: Timestamp,
    context: &Context,
) -> Result<Verdict, StoreError> {
    let Some(held) = current(unit, &lease).await? else { return Ok(Verdict::Stale) };
    set_deadline(unit, lease.task_id, deadline).await?;
    if held.acknowledged == 0 {
        start_operation(unit, &held.operation_id, context).await?;
    }
    Ok(Verdict::Accepted)
}

pub(crate) async fn extend(
    unit: &mut Unit,
    lease: LeaseKey,
    deadline: Timestamp,
    context: &Context,
) -> Result<Extended, StoreError> {
    let Some(held) = current(unit, &lease).await? else {
        return Ok(Extended { verdict: Verdict::Stale, canceled: false });
    };
    set_deadline(unit, lease.task_id, deadline).await?;
    start_operation(unit, &held.operation_id, context).await?;
    Ok(Extended { verdict: Verdict::Accepted, canceled: held.cancel_requested != 0 })
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
        match Held::read(unit, *task_id).await? {
            Some(task) if task.node_id == node_id.to_string() && task.status == "leased" => {
                set_deadline(unit, *task_id, deadline).await?;
                start_operation(unit, &task.operation_id, context).await?;
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
            let subject = Subject::read(unit, &operation_id).await?;
            super::expire::end_lease(unit, &subject, &task_id, "task.lease_lost", context).await?;
        }
    }
    Ok(())
}
