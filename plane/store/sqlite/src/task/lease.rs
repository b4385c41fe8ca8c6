//! Giving leases.

use std::collections::BTreeMap;

use fettle_model::name::StepId;
use fettle_store::{
    StoreError,
    change::Change,
    context::Context,
    fact::Fact,
    id::NodeId,
    task::{Lease, Wanted},
};
use fettle_store_rows::{
    task::LeasedRow,
    waiting::{NodeState, Queue, depths},
};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::SqliteConnection;

use super::{admission, queue};
use crate::{audit, error::unavailable, list, row, writer::Unit};

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
    wanted: Wanted,
    acknowledge_by: Timestamp,
    context: &Context,
) -> Result<Vec<Lease>, StoreError> {
    let node = admission::node(unit, node_id).await?;
    let room = node.free().min(wanted.most()) as usize;
    if room == 0 {
        return Ok(Vec::new());
    }
    let mut giving =
        Giving { node: &node, node_id, room, acknowledge_by, context, chosen: Vec::new(), leases: Vec::new() };
    for depth in depths(room) {
        let mut queue = queue::read(&mut unit.connection, node_id, depth).await?;
        queue.only(wanted);
        giving.give_of(unit, &queue).await?;
        if giving.is_full() || !queue.is_shallow {
            break;
        }
    }
    unit.announce(Change::Lease);
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

impl Giving<'_> {
    fn is_full(&self) -> bool {
        self.chosen.len() + self.leases.len() >= self.room
    }

    /// Gives what nothing keeps from the node, while there is room.
    async fn give_of(&mut self, unit: &mut Unit, queue: &Queue) -> Result<(), StoreError> {
        for candidate in &queue.candidates {
            if self.is_full() {
                break;
            }
            // A limit counts what was given before.
            if candidate.is_limited() {
                self.give(unit).await?;
            }
            if admission::refusals(&mut unit.connection, self.node, candidate).await?.is_empty() {
                self.chosen.push(candidate.task_id.clone());
                if queue.is_contended {
                    queue::take_turn(unit, self.node_id, candidate, self.context).await?;
                }
            } else if queue.is_shallow {
                break;
            }
        }
        self.give(unit).await
    }

    /// Gives what is chosen: the epochs grow, and the operations are under way.
    async fn give(&mut self, unit: &mut Unit) -> Result<(), StoreError> {
        let tasks = std::mem::take(&mut self.chosen);
        if tasks.is_empty() {
            return Ok(());
        }
        let statement = sqlx::query_scalar(
            "UPDATE operations SET dispatched_at = $3
             WHERE dispatched_at IS NULL AND operation_id IN
                 (SELECT operation_id FROM tasks WHERE task_id IN (SELECT value FROM json_each($1)));
             UPDATE tasks SET status = 'leased', epoch = epoch + 1, deadline = $2, acknowledged = 0
             WHERE task_id IN (SELECT value FROM json_each($1));
             SELECT json_group_array(json_array(task_id, json_array(operations.operation_id, operation_type,
                 operations.org_id, project_id, node_id, correlation_id, sources, inputs, plan_digest, epoch, tasks.run,
                 trace_parent, inquiry)) ORDER BY given.key)
             FROM json_each($1) AS given CROSS JOIN tasks ON task_id = given.value JOIN operations USING (operation_id)",
        );
        let statement = statement.bind(row::text("task", &tasks)?).bind(self.acknowledge_by.as_millisecond());
        let statement = statement.bind(self.context.at.as_millisecond());
        let rows: Vec<(String, LeasedRow)> = list::read(&mut unit.connection, (VERB, "task"), statement).await?;
        for (task_id, row) in rows {
            self.leases.push(make(unit, &task_id, row, self.context).await?);
        }
        Ok(())
    }
}

async fn make(unit: &mut Unit, task_id: &str, row: LeasedRow, context: &Context) -> Result<Lease, StoreError> {
    let (scope, correlation_id) = row.story();
    let context = Context { correlation_id, ..context.clone() };
    audit::record(unit, &context, &scope, "task.lease", &format!("tasks/{task_id}"));
    let accepted = if row.may_have_results() { accepted(unit, task_id).await? } else { BTreeMap::new() };
    let about = row.about();
    let lease = row.lease(task_id, accepted)?;
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
