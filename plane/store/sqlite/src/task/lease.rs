//! Giving leases.

use std::collections::BTreeMap;

use fettle_model::name::StepId;
use fettle_store::{StoreError, change::Change, context::Context, id::NodeId, task::Lease};
use fettle_store_rows::task::LeasedRow;
use jiff::Timestamp;
use serde_json::Value;
use sqlx::SqliteConnection;

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
    let room = free_slots(unit, node_id).await?.min(i64::from(limit));
    if room <= 0 {
        return Ok(Vec::new());
    }
    let mut leased: Vec<(String, i64)> = sqlx::query_as(
        "UPDATE tasks SET status = 'leased', epoch = epoch + 1, deadline = $3, acknowledged = 0
         WHERE task_id IN
             (SELECT task_id FROM tasks WHERE node_id = $1 AND status = 'ready' ORDER BY task_id LIMIT $2)
         RETURNING task_id, epoch",
    )
    .bind(node_id.to_string())
    .bind(room)
    .bind(acknowledge_by.as_millisecond())
    .fetch_all(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    leased.sort();
    let mut leases = Vec::with_capacity(leased.len());
    for (task_id, epoch) in leased {
        leases.push(make(unit, &task_id, epoch, context).await?);
    }
    unit.announce(Change::Lease);
    Ok(leases)
}

async fn free_slots(unit: &mut Unit, node_id: NodeId) -> Result<i64, StoreError> {
    let found: Option<(i64,)> = sqlx::query_as(
        "SELECT slots - (SELECT count(*) FROM tasks WHERE node_id = $1 AND status = 'leased')
         FROM nodes WHERE node_id = $1",
    )
    .bind(node_id.to_string())
    .fetch_optional(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    found.map(|(free,)| free).ok_or_else(|| StoreError::not_found("node", node_id))
}

async fn make(unit: &mut Unit, task_id: &str, epoch: i64, context: &Context) -> Result<Lease, StoreError> {
    let found: LeasedRow = sqlx::query_as(
        "SELECT operations.operation_id, org_id, project_id, node_id, correlation_id, sources, inputs, plan_digest
         FROM tasks JOIN operations USING (operation_id) WHERE task_id = $1",
    )
    .bind(task_id)
    .fetch_one(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    let (scope, correlation_id) = found.story();
    let context = Context { correlation_id, ..context.clone() };
    audit::record(unit, &context, &scope, "task.lease", &format!("tasks/{task_id}")).await?;
    // Nothing can be accepted before the first lease.
    let accepted = if epoch > 1 { accepted(unit, task_id).await? } else { BTreeMap::new() };
    found.lease(task_id, epoch, accepted)
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
