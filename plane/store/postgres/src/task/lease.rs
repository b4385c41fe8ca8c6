//! Giving leases.

use std::collections::BTreeMap;

use fettle_store::{StoreError, change::Change, context::Context, id::NodeId, task::Lease};
use fettle_store_rows::task::{LeasedRow, accepted};
use jiff::Timestamp;
use sqlx::FromRow;

use crate::{
    audit,
    unit::{Asking, Unit},
};

/// Counted in a statement of its own: only what was committed before the node was locked is certain.
const LEASE: &str = "
WITH room AS (
    SELECT least($2 - count(*), $3) AS tasks FROM tasks WHERE node_id = $1 AND status = 'leased'
), chosen AS (
    SELECT task_id FROM tasks WHERE node_id = $1 AND status = 'ready'
    ORDER BY task_id LIMIT (SELECT greatest(tasks, 0) FROM room) FOR NO KEY UPDATE SKIP LOCKED
), leased AS (
    UPDATE tasks SET status = 'leased', epoch = epoch + 1, deadline = $4, acknowledged = 0 FROM chosen
    WHERE tasks.task_id = chosen.task_id
    RETURNING tasks.task_id, tasks.epoch, tasks.node_id, tasks.operation_id
)
SELECT task_id, epoch, operation_id, org_id, project_id, node_id, correlation_id, sources, inputs, plan_digest
FROM leased JOIN operations USING (operation_id) ORDER BY task_id";

#[derive(FromRow)]
struct Given {
    task_id: String,
    epoch: i64,
    #[sqlx(flatten)]
    of: LeasedRow,
}

pub(crate) async fn lease(
    unit: &mut Unit,
    node_id: NodeId,
    limit: u32,
    acknowledge_by: Timestamp,
    context: &Context,
) -> Result<Vec<Lease>, StoreError> {
    // Whoever else leases for this node waits here, at whichever plane.
    let lock = "SELECT slots FROM nodes WHERE node_id = $1 FOR NO KEY UPDATE";
    let slots = unit.look_for(lock, |query: Asking<(i64,)>| query.bind(node_id.to_string())).await?;
    let (slots,) = slots.ok_or_else(|| StoreError::not_found("node", node_id))?;
    let given = unit
        .change(LEASE, |query: Asking<Given>| {
            query.bind(node_id.to_string()).bind(slots).bind(i64::from(limit)).bind(acknowledge_by.as_millisecond())
        })
        .await?;
    let mut leases = Vec::with_capacity(given.len());
    for given in given {
        leases.push(make(unit, given, context).await?);
    }
    if !leases.is_empty() {
        unit.announce(Change::Lease);
    }
    Ok(leases)
}

async fn make(unit: &mut Unit, given: Given, context: &Context) -> Result<Lease, StoreError> {
    let Given { task_id, epoch, of } = given;
    let (scope, correlation_id) = of.story();
    let context = Context { correlation_id, ..context.clone() };
    audit::record(unit, &context, &scope, "task.lease", &format!("tasks/{task_id}"));
    // Nothing can be accepted before the first lease.
    let done = if epoch > 1 {
        let sql = "SELECT step_id, outcome FROM operation_steps WHERE task_id = $1 AND status = 'succeeded'";
        accepted(unit.look(sql, |query: Asking<(String, String)>| query.bind(task_id.clone())).await?)?
    } else {
        BTreeMap::new()
    };
    of.lease(&task_id, epoch, done)
}
