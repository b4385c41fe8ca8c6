//! What waits for a node, in the order in which it goes.

use fettle_store::{StoreError, context::Context, id::NodeId, queue::Line, task::ReadyTask};
use fettle_store_rows::waiting::{Candidate, LOOKED_AT, Organisation, Queue, ReadyRow};
use sqlx::SqliteConnection;

use crate::{error::unavailable, list, row, writer::Unit};

const VERB: &str = "lease_tasks";

/// The columns of a candidate, from `tasks JOIN operations`.
macro_rules! candidate_columns {
    () => {
        "task_id, operation_id, operation_type, operations.org_id AS org_id,
         operations.project_id AS project_id, dispatched_at, requires,
         max_parallel_nodes, max_concurrency_global, max_concurrency_tenant, max_concurrency_project"
    };
}
pub(crate) use candidate_columns;

/// Reads it: of each organisation the first `depth` tasks.
pub(crate) async fn read(connection: &mut SqliteConnection, node_id: NodeId, depth: u32) -> Result<Queue, StoreError> {
    let organisations = organisations(connection, node_id).await?;
    let mut lines = Vec::with_capacity(organisations.len());
    for organisation in organisations {
        lines.push(line(connection, node_id, &organisation, depth).await?);
    }
    Ok(Queue::new(lines, depth))
}

/// The organisations that wait. Each turn of the recursion is one step in the index, however long the queue is.
async fn organisations(connection: &mut SqliteConnection, node_id: NodeId) -> Result<Vec<Organisation>, StoreError> {
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
    .fetch_all(connection)
    .await
    .map_err(unavailable(VERB))
}

async fn line(
    connection: &mut SqliteConnection,
    node_id: NodeId,
    organisation: &Organisation,
    depth: u32,
) -> Result<Line<Candidate>, StoreError> {
    let statement = sqlx::query_scalar(
        "SELECT json_group_array(json_array(task_id, operation_id, operation_type, org_id, project_id, dispatched_at,
             requires, max_parallel_nodes, max_concurrency_global, max_concurrency_tenant, max_concurrency_project)
             ORDER BY priority DESC, task_id)
         FROM (SELECT task_id, operation_id, operation_type, operations.org_id AS org_id, project_id, dispatched_at,
                   requires, max_parallel_nodes, max_concurrency_global, max_concurrency_tenant,
                   max_concurrency_project, tasks.priority AS priority
               FROM tasks JOIN operations USING (operation_id)
               WHERE tasks.node_id = $1 AND tasks.org_id = $2 AND tasks.status = 'ready'
               ORDER BY tasks.priority DESC, task_id LIMIT $3)",
    );
    let statement = statement.bind(node_id.to_string()).bind(&organisation.org_id).bind(depth);
    organisation.line(list::read(connection, (VERB, "task"), statement).await?)
}

/// The tasks in the order in which they go, for who decides about them.
pub(crate) async fn ready_tasks(
    connection: &mut SqliteConnection,
    node_id: NodeId,
) -> Result<Vec<ReadyTask>, StoreError> {
    let queue = read(connection, node_id, LOOKED_AT).await?;
    let ids: Vec<&String> = queue.candidates.iter().map(|candidate| &candidate.task_id).collect();
    let rows: Vec<ReadyRow> = sqlx::query_as(
        "SELECT task_id, operation_id, operation_type, version, operations.org_id AS org_id, project_id, inputs,
             requested_by_user_id, created_at
         FROM json_each($1) AS waiting CROSS JOIN tasks ON task_id = waiting.value JOIN operations USING (operation_id)
         ORDER BY waiting.key",
    )
    .bind(row::text("task", &ids)?)
    .fetch_all(connection)
    .await
    .map_err(unavailable("ready_tasks"))?;
    rows.into_iter().map(ReadyRow::task).collect()
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
