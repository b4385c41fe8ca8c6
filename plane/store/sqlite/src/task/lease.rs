//! Giving leases.

use std::collections::BTreeMap;

use fettle_model::name::StepId;
use fettle_store::{StoreError, change::Change, context::Context, fact::Fact, id::NodeId, task::Lease};
use fettle_store_rows::task::LeasedRow;
use jiff::Timestamp;
use serde_json::Value;
use sqlx::SqliteConnection;

use super::{
    admission,
    queue::{self, Candidate},
};
use crate::{audit, error::unavailable, writer::Unit};

const VERB: &str = "lease_tasks";

/// Whether the node has a ready task.
pub(crate) async fn any_ready(connection: &mut SqliteConnection, node_id: NodeId) -> Result<bool, StoreError> {
    let found: Option<(i64,)> = sqlx::query_as("SELECT 1 FROM tasks WHERE node_id = $1 AND status = 'ready' LIMIT 1")
        .bind(node_id.to_string())
        .fetch_optional(connection)
        .await
        .map_err(unavailable(VERB))?;
    Ok(found.is_some())
}

pub(crate) async fn lease(
    unit: &mut Unit,
    node_id: NodeId,
    limit: u32,
    acknowledge_by: Timestamp,
    context: &Context,
) -> Result<Vec<Lease>, StoreError> {
    let node = admission::node(unit, node_id).await?;
    let room = node.free().min(limit) as usize;
    if room == 0 {
        return Ok(Vec::new());
    }
    let queue = queue::Queue::read(unit, node_id).await?;
    let mut leases = Vec::new();
    for candidate in &queue.candidates {
        if leases.len() == room {
            break;
        }
        if admission::refusals(&mut unit.connection, &node, candidate).await?.is_empty() {
            leases.push(give(unit, candidate, acknowledge_by, context).await?);
            if queue.is_contended {
                queue::take_turn(unit, node_id, candidate, context).await?;
            }
        }
    }
    unit.announce(Change::Lease);
    Ok(leases)
}

/// The epoch grows, and the operation is under way.
async fn give(
    unit: &mut Unit,
    candidate: &Candidate,
    acknowledge_by: Timestamp,
    context: &Context,
) -> Result<Lease, StoreError> {
    sqlx::query(
        "UPDATE tasks SET status = 'leased', epoch = epoch + 1, deadline = $2, acknowledged = 0 WHERE task_id = $1;
         UPDATE operations SET dispatched_at = $4 WHERE operation_id = $3 AND dispatched_at IS NULL",
    )
    .bind(&candidate.task_id)
    .bind(acknowledge_by.as_millisecond())
    .bind(&candidate.operation_id)
    .bind(context.at.as_millisecond())
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    make(unit, &candidate.task_id, context).await
}

async fn make(unit: &mut Unit, task_id: &str, context: &Context) -> Result<Lease, StoreError> {
    let found: LeasedRow = sqlx::query_as(
        "SELECT operations.operation_id, operation_type, operations.org_id, project_id, node_id, correlation_id,
             sources, inputs, plan_digest, epoch, tasks.run, trace_parent
         FROM tasks JOIN operations USING (operation_id) WHERE task_id = $1",
    )
    .bind(task_id)
    .fetch_one(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    let (scope, correlation_id) = found.story();
    let context = Context { correlation_id, ..context.clone() };
    audit::record(unit, &context, &scope, "task.lease", &format!("tasks/{task_id}")).await?;
    let accepted = if found.may_have_results() { accepted(unit, task_id).await? } else { BTreeMap::new() };
    let about = found.about();
    let lease = found.lease(task_id, accepted)?;
    unit.witness(Fact::TaskLeased { about, task_id: task_id.to_owned(), epoch: lease.epoch.0 });
    Ok(lease)
}

/// Outputs of the steps that are done.
async fn accepted(unit: &mut Unit, task_id: &str) -> Result<BTreeMap<StepId, Value>, StoreError> {
    let rows: Vec<(String, String)> =
        sqlx::query_as("SELECT step_id, outcome FROM operation_steps WHERE task_id = $1 AND status = 'succeeded'")
            .bind(task_id)
            .fetch_all(&mut unit.connection)
            .await
            .map_err(unavailable(VERB))?;
    fettle_store_rows::task::accepted(rows)
}
