//! What waits for a node, in the order in which it goes.

use fettle_store::{
    StoreError,
    context::Context,
    id::NodeId,
    queue::{Line, interleave},
};
pub(crate) use fettle_store_rows::waiting::Candidate;
use fettle_store_rows::waiting::Organisation;

use crate::{error::unavailable, writer::Unit};

const VERB: &str = "lease_tasks";

/// Tasks looked at of one organisation. Those behind them wait until some of these have gone.
const LOOKED_AT: i64 = 64;

/// The columns of a candidate, from `tasks JOIN operations`.
macro_rules! candidate_columns {
    () => {
        "task_id, operation_id, operation_type, operations.org_id AS org_id,
         operations.project_id AS project_id, dispatched_at, requires,
         max_parallel_nodes, max_concurrency_global, max_concurrency_tenant, max_concurrency_project"
    };
}
pub(crate) use candidate_columns;

/// What waits for a node.
pub(crate) struct Queue {
    pub(crate) candidates: Vec<Candidate>,
    /// Whether several organisations wait.
    pub(crate) is_contended: bool,
}

impl Queue {
    /// Reads it.
    pub(crate) async fn read(unit: &mut Unit, node_id: NodeId) -> Result<Self, StoreError> {
        let organisations = organisations(unit, node_id).await?;
        let is_contended = organisations.len() > 1;
        let mut lines = Vec::with_capacity(organisations.len());
        for organisation in organisations {
            lines.push(line(unit, node_id, &organisation).await?);
        }
        Ok(Self { candidates: interleave(lines), is_contended })
    }
}

/// The organisations that wait. Each turn of the recursion is one step in the index, however long the queue is.
async fn organisations(unit: &mut Unit, node_id: NodeId) -> Result<Vec<Organisation>, StoreError> {
    sqlx::query_as(
        "WITH RECURSIVE waiting (org_id) AS (
             SELECT min(org_id) FROM tasks WHERE node_id = $1 AND status = 'ready'
             UNION ALL
             SELECT (SELECT min(org_id) FROM tasks
                     WHERE node_id = $1 AND status = 'ready' AND org_id > waiting.org_id)
             FROM waiting WHERE waiting.org_id IS NOT NULL)
         SELECT org_id,
             (SELECT count(*) FROM tasks
              WHERE node_id = $1 AND status = 'leased' AND tasks.org_id = waiting.org_id) AS held,
             (SELECT last_turn_at FROM node_turns
              WHERE node_id = $1 AND node_turns.org_id = waiting.org_id) AS last_turn_at
         FROM waiting WHERE org_id IS NOT NULL",
    )
    .bind(node_id.to_string())
    .fetch_all(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))
}

async fn line(unit: &mut Unit, node_id: NodeId, organisation: &Organisation) -> Result<Line<Candidate>, StoreError> {
    let found: Vec<Candidate> = sqlx::query_as(concat!(
        "SELECT ",
        candidate_columns!(),
        " FROM tasks JOIN operations USING (operation_id)
         WHERE tasks.node_id = $1 AND tasks.org_id = $2 AND tasks.status = 'ready'
         ORDER BY tasks.priority DESC, task_id LIMIT $3"
    ))
    .bind(node_id.to_string())
    .bind(&organisation.org_id)
    .bind(LOOKED_AT)
    .fetch_all(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    organisation.line(found)
}

/// Remembers that the organisation went while others waited.
pub(crate) async fn take_turn(
    unit: &mut Unit,
    node_id: NodeId,
    candidate: &Candidate,
    context: &Context,
) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO node_turns (node_id, org_id, last_turn_at) VALUES ($1, $2, $3)
         ON CONFLICT (node_id, org_id) DO UPDATE SET last_turn_at = excluded.last_turn_at",
    )
    .bind(node_id.to_string())
    .bind(&candidate.org_id)
    .bind(context.at.as_millisecond())
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    Ok(())
}
