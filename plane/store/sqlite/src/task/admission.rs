//! What keeps a task from its node.

use fettle_store::{StoreError, id::NodeId, operation::Wait};
use fettle_store_rows::waiting::{Candidate, Limit, NodeState, enough_nodes};
use sqlx::SqliteConnection;

use crate::{error::unavailable, writer::Unit};

const VERB: &str = "lease_tasks";

/// The columns of a node, from `nodes`.
macro_rules! node_columns {
    () => {
        "nodes.node_id AS node_id, name, capabilities, slots, last_heartbeat_at,
         (SELECT count(*) FROM tasks AS other WHERE other.node_id = nodes.node_id AND other.status = 'leased') AS held"
    };
}
pub(crate) use node_columns;

/// Reads what counts of a node.
pub(crate) async fn node(unit: &mut Unit, node_id: NodeId) -> Result<NodeState, StoreError> {
    let found: Option<NodeState> =
        sqlx::query_as(concat!("SELECT ", node_columns!(), " FROM nodes WHERE nodes.node_id = $1"))
            .bind(node_id.to_string())
            .fetch_optional(&mut unit.connection)
            .await
            .map_err(unavailable(VERB))?;
    found.ok_or_else(|| StoreError::not_found("node", node_id))
}

/// What keeps this task from this node, its slots aside.
pub(crate) async fn refusals(
    connection: &mut SqliteConnection,
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

async fn leased(connection: &mut SqliteConnection, operation_id: &str) -> Result<i64, StoreError> {
    sqlx::query_scalar("SELECT count(*) FROM tasks WHERE operation_id = $1 AND status = 'leased'")
        .bind(operation_id)
        .fetch_one(connection)
        .await
        .map_err(unavailable(VERB))
}

/// Operations of a type that are under way.
async fn under_way(
    connection: &mut SqliteConnection,
    operation_type: &str,
    limit: &Limit<'_>,
) -> Result<i64, StoreError> {
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
