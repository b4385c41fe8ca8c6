//! What keeps a task from its node.

use fettle_store::{StoreError, operation::Wait};
use fettle_store_rows::waiting::{Candidate, Limit, NodeState, enough_nodes};
use sqlx::PgConnection;

use crate::error::unavailable;

const VERB: &str = "lease_tasks";

/// The columns of a node, from `nodes`.
macro_rules! node_columns {
    () => {
        "nodes.node_id AS node_id, name, capabilities, slots, last_heartbeat_at,
         (SELECT count(*) FROM tasks AS other WHERE other.node_id = nodes.node_id AND other.status = 'leased') AS held"
    };
}
pub(crate) use node_columns;

/// Waits for whoever else counts the same, at whichever plane. Task before operation, as everywhere. False when the
/// task is not there to be had.
pub(crate) async fn lock(connection: &mut PgConnection, candidate: &Candidate) -> Result<bool, StoreError> {
    let ready: Option<(i64,)> = sqlx::query_as(
        "SELECT 1::bigint FROM tasks WHERE task_id = $1 AND status = 'ready' FOR NO KEY UPDATE SKIP LOCKED",
    )
    .bind(&candidate.task_id)
    .fetch_optional(&mut *connection)
    .await
    .map_err(unavailable(VERB))?;
    if ready.is_none() {
        return Ok(false);
    }
    if candidate.max_parallel_nodes.is_some() {
        sqlx::query("SELECT 1 FROM operations WHERE operation_id = $1 FOR NO KEY UPDATE")
            .bind(&candidate.operation_id)
            .execute(&mut *connection)
            .await
            .map_err(unavailable(VERB))?;
    }
    if candidate.limits().next().is_some() {
        sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))")
            .bind(&candidate.operation_type)
            .execute(connection)
            .await
            .map_err(unavailable(VERB))?;
    }
    Ok(true)
}

/// What keeps this task from this node, its slots aside.
pub(crate) async fn refusals(
    connection: &mut PgConnection,
    node: &NodeState,
    candidate: &Candidate,
) -> Result<Vec<Wait>, StoreError> {
    let mut found = candidate.missing_capabilities(node)?;
    if let Some(limit) = candidate.max_parallel_nodes
        && leased(connection, &candidate.operation_id).await? >= limit
    {
        found.push(enough_nodes(limit)?);
    }
    for limit in candidate.limits() {
        if under_way(connection, &candidate.operation_type, &limit).await? >= limit.limit {
            found.push(limit.reached()?);
        }
    }
    Ok(found)
}

async fn leased(connection: &mut PgConnection, operation_id: &str) -> Result<i64, StoreError> {
    sqlx::query_scalar("SELECT count(*) FROM tasks WHERE operation_id = $1 AND status = 'leased'")
        .bind(operation_id)
        .fetch_one(connection)
        .await
        .map_err(unavailable(VERB))
}

/// Operations of a type that are under way.
async fn under_way(connection: &mut PgConnection, operation_type: &str, limit: &Limit<'_>) -> Result<i64, StoreError> {
    sqlx::query_scalar(
        "SELECT count(*) FROM operations
         WHERE operation_type = $1 AND ($2 = '' OR org_id = $2) AND ($3 = '' OR project_id = $3)
             AND dispatched_at IS NOT NULL AND finished_at IS NULL",
    )
    .bind(operation_type)
    .bind(limit.org_id)
    .bind(limit.project_id)
    .fetch_one(connection)
    .await
    .map_err(unavailable(VERB))
}
