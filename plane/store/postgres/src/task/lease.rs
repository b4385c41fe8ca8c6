//! Giving leases.

use std::collections::BTreeMap;

use fettle_store::{StoreError, change::Change, context::Context, fact::Fact, id::NodeId, task::Lease};
use fettle_store_rows::{
    task::{LeasedRow, accepted},
    waiting::NodeState,
};
use jiff::Timestamp;

use super::{
    admission::{self, node_columns},
    queue::{self, Candidate},
};
use crate::{
    audit,
    unit::{Asking, Unit},
};

/// Counted in a statement of its own: only what was committed before the node was locked is certain.
const NODE: &str = concat!("SELECT ", node_columns!(), " FROM nodes WHERE nodes.node_id = $1");

/// The epoch grows, and the operation is under way. Nothing where somebody else has taken or ended the task.
const GIVE: &str = "
WITH given AS (
    UPDATE tasks SET status = 'leased', epoch = epoch + 1, deadline = $2, acknowledged = 0
    WHERE task_id = $1 AND status = 'ready'
    RETURNING operation_id, node_id, epoch, run
), dispatched AS (
    UPDATE operations SET dispatched_at = $3 FROM given
    WHERE operations.operation_id = given.operation_id AND dispatched_at IS NULL
)
SELECT operation_id, operation_type, org_id, project_id, node_id, correlation_id, sources, inputs, plan_digest, epoch,
    given.run AS run, trace_parent
FROM given JOIN operations USING (operation_id)";

pub(crate) async fn lease(
    unit: &mut Unit,
    node_id: NodeId,
    limit: u32,
    acknowledge_by: Timestamp,
    context: &Context,
) -> Result<Vec<Lease>, StoreError> {
    // Whoever else leases for this node waits here, at whichever plane.
    let lock = "SELECT slots FROM nodes WHERE node_id = $1 FOR NO KEY UPDATE";
    unit.look_for(lock, |query: Asking<(i64,)>| query.bind(node_id.to_string())).await?;
    let node = unit.look_for(NODE, |query: Asking<NodeState>| query.bind(node_id.to_string())).await?;
    let node = node.ok_or_else(|| StoreError::not_found("node", node_id))?;
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
        let Some(lease) = give(unit, &node, candidate, acknowledge_by, context).await? else { continue };
        leases.push(lease);
        if queue.is_contended {
            queue::take_turn(unit, node_id, candidate, context).await?;
        }
    }
    if !leases.is_empty() {
        unit.announce(Change::Lease);
    }
    Ok(leases)
}

async fn give(
    unit: &mut Unit,
    node: &NodeState,
    candidate: &Candidate,
    acknowledge_by: Timestamp,
    context: &Context,
) -> Result<Option<Lease>, StoreError> {
    if admission::is_limited(candidate) && !admission::lock(&mut unit.connection, candidate).await? {
        return Ok(None);
    }
    if !admission::refusals(&mut unit.connection, node, candidate).await?.is_empty() {
        return Ok(None);
    }
    let task_id = &candidate.task_id;
    let given = unit
        .change_one(GIVE, |query: Asking<LeasedRow>| {
            query.bind(task_id.clone()).bind(acknowledge_by.as_millisecond()).bind(context.at.as_millisecond())
        })
        .await?;
    let Some(given) = given else { return Ok(None) };
    let (scope, correlation_id) = given.story();
    let context = Context { correlation_id, ..context.clone() };
    audit::record(unit, &context, &scope, "task.lease", &format!("tasks/{task_id}"));
    let done = if given.may_have_results() {
        let sql = "SELECT step_id, outcome FROM operation_steps WHERE task_id = $1 AND status = 'succeeded'";
        accepted(unit.look(sql, |query: Asking<(String, String)>| query.bind(task_id.clone())).await?)?
    } else {
        BTreeMap::new()
    };
    let about = given.about();
    let lease = given.lease(task_id, done)?;
    unit.witness(Fact::TaskLeased { about, task_id: task_id.clone(), epoch: lease.epoch.0 });
    Ok(Some(lease))
}
