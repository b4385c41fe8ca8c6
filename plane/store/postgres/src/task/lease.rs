//! Giving leases.

use std::collections::BTreeMap;

use fettle_store::{
    StoreError,
    change::Change,
    context::Context,
    fact::Fact,
    id::NodeId,
    task::{Lease, Wanted},
};
use fettle_store_rows::{
    task::{LeasedRow, accepted},
    waiting::{Candidate, NodeState, Queue, depths},
};
use jiff::Timestamp;
use sqlx_macros::FromRow;

use super::{
    admission::{self, node_columns},
    queue,
};
use crate::{
    audit,
    unit::{Asking, Unit},
};

/// Counted in a statement of its own: only what was committed before the node was locked is certain.
const NODE: &str = concat!("SELECT ", node_columns!(), " FROM nodes WHERE nodes.node_id = $1");

/// The epochs grow, and the operations are under way. Nothing where somebody else has taken or ended the task. The
/// status is looked at behind the lock: before it, the index of all that is ready may be read from end to end.
const GIVE: &str = "
WITH locked AS (
    SELECT task_id, status FROM tasks WHERE task_id = ANY($1) ORDER BY task_id FOR NO KEY UPDATE
), given AS (
    UPDATE tasks SET status = 'leased', epoch = epoch + 1, deadline = $2, acknowledged = 0
    FROM locked
    WHERE tasks.task_id = locked.task_id AND locked.status = 'ready'
    RETURNING tasks.task_id, operation_id, node_id, epoch, run, inquiry
), dispatched AS (
    UPDATE operations SET dispatched_at = $3 FROM given
    WHERE operations.operation_id = given.operation_id AND dispatched_at IS NULL
)
SELECT task_id, operation_id, operation_type, org_id, project_id, node_id, correlation_id, sources, inputs,
    plan_digest, epoch, given.run AS run, trace_parent, inquiry
FROM given JOIN operations USING (operation_id) ORDER BY array_position($1, task_id)";

pub(crate) async fn lease(
    unit: &mut Unit,
    node_id: NodeId,
    wanted: Wanted,
    acknowledge_by: Timestamp,
    context: &Context,
) -> Result<Vec<Lease>, StoreError> {
    // Whoever else leases for this node waits here, at whichever plane.
    let lock = "SELECT slots FROM nodes WHERE node_id = $1 FOR NO KEY UPDATE";
    unit.look_for(lock, |query: Asking<(i64,)>| query.bind(node_id.to_string())).await?;
    let node = unit.look_for(NODE, |query: Asking<NodeState>| query.bind(node_id.to_string())).await?;
    let node = node.ok_or_else(|| StoreError::not_found("node", node_id))?;
    let room = node.free().min(wanted.most()) as usize;
    if room == 0 {
        return Ok(Vec::new());
    }
    let mut giving =
        Giving { node: &node, node_id, room, acknowledge_by, context, chosen: Vec::new(), leases: Vec::new() };
    for depth in depths(room) {
        let mut queue = queue::read(unit, node_id, depth).await?;
        queue.only(wanted);
        giving.give_of(unit, &queue).await?;
        if giving.is_full() || !queue.is_shallow {
            break;
        }
    }
    if !giving.leases.is_empty() {
        unit.announce(Change::Lease);
    }
    Ok(giving.leases)
}

/// Leases that are given together.
struct Giving<'g> {
    node: &'g NodeState,
    node_id: NodeId,
    room: usize,
    acknowledge_by: Timestamp,
    context: &'g Context,
    chosen: Vec<String>,
    leases: Vec<Lease>,
}

#[derive(FromRow)]
struct GivenRow {
    task_id: String,
    #[sqlx(flatten)]
    row: LeasedRow,
}

impl Giving<'_> {
    fn is_full(&self) -> bool {
        self.chosen.len() + self.leases.len() >= self.room
    }

    /// Gives what nothing keeps from the node, while there is room.
    async fn give_of(&mut self, unit: &mut Unit, queue: &Queue) -> Result<(), StoreError> {
        for candidate in &queue.candidates {
            if self.is_full() {
                // Some of them may be gone.
                self.give(unit).await?;
            }
            if self.is_full() {
                break;
            }
            match self.choose(unit, candidate).await? {
                true if queue.is_contended => {
                    queue::take_turn(unit, self.node_id, candidate, self.context).await?;
                }
                false if queue.is_shallow => break,
                true | false => {}
            }
        }
        self.give(unit).await
    }

    /// Chooses a task unless something keeps it from the node. A limit counts what was given before, so its task is given
    /// at once.
    async fn choose(&mut self, unit: &mut Unit, candidate: &Candidate) -> Result<bool, StoreError> {
        let is_limited = candidate.is_limited();
        if is_limited {
            self.give(unit).await?;
            if !admission::lock(&mut unit.connection, candidate).await? {
                return Ok(false);
            }
        }
        if !admission::refusals(&mut unit.connection, self.node, candidate).await?.is_empty() {
            return Ok(false);
        }
        self.chosen.push(candidate.task_id.clone());
        if is_limited {
            self.give(unit).await?;
        }
        Ok(true)
    }

    async fn give(&mut self, unit: &mut Unit) -> Result<(), StoreError> {
        let tasks = std::mem::take(&mut self.chosen);
        if tasks.is_empty() {
            return Ok(());
        }
        let given = unit
            .change(GIVE, |query: Asking<GivenRow>| {
                query.bind(tasks).bind(self.acknowledge_by.as_millisecond()).bind(self.context.at.as_millisecond())
            })
            .await?;
        for GivenRow { task_id, row } in given {
            self.leases.push(make(unit, &task_id, row, self.context).await?);
        }
        Ok(())
    }
}

async fn make(unit: &mut Unit, task_id: &str, row: LeasedRow, context: &Context) -> Result<Lease, StoreError> {
    let (scope, correlation_id) = row.story();
    let context = Context { correlation_id, ..context.clone() };
    audit::record(unit, &context, &scope, "task.lease", &format!("tasks/{task_id}"));
    let done = if row.may_have_results() {
        let sql = "SELECT step_id, outcome FROM operation_steps WHERE task_id = $1 AND status = 'succeeded'";
        accepted(unit.look(sql, |query: Asking<(String, String)>| query.bind(task_id.to_owned())).await?)?
    } else {
        BTreeMap::new()
    };
    let about = row.about();
    let lease = row.lease(task_id, done)?;
    unit.witness(Fact::TaskLeased { about, task_id: task_id.to_owned(), epoch: lease.epoch.0 });
    Ok(lease)
}
