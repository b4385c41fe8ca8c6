//! What is decided about another run of an operation.

use std::collections::BTreeSet;

use fettle_model::operation::OperationStatus;
use fettle_store::{
    StoreError,
    id::{NodeId, OperationId},
    operation::Operation,
};
use sqlx_macros::FromRow;

/// A task that a newer one replaces.
#[derive(Clone, Debug, FromRow)]
pub struct OldTask {
    /// Which.
    pub task_id: String,
    /// Its node.
    pub node_id: String,
    /// How it ended.
    pub status: String,
}

/// Refuses an operation that is not over or has succeeded.
///
/// # Errors
/// `Conflict` then.
pub fn refuse_what_is_not_over(known: &Operation) -> Result<(), StoreError> {
    let id = known.id;
    match known.state.status() {
        OperationStatus::Failed | OperationStatus::Canceled => Ok(()),
        OperationStatus::Succeeded => Err(StoreError::conflict(
            "operation.succeeded",
            format!("operation {id} has succeeded on every node; there is nothing to retry, submit a new one"),
        )),
        status @ (OperationStatus::Queued | OperationStatus::Running) => Err(StoreError::conflict(
            "operation.not_over",
            format!("operation {id} is {status}; wait until it is over, or cancel it first"),
        )),
    }
}

/// The tasks on the nodes that are meant, of all that did not succeed.
///
/// # Errors
/// `Conflict` when one of the nodes has nothing to retry.
pub fn choose(
    mut old: Vec<OldTask>,
    id: OperationId,
    nodes: Option<&BTreeSet<NodeId>>,
) -> Result<Vec<OldTask>, StoreError> {
    let Some(nodes) = nodes else { return Ok(old) };
    let names: BTreeSet<String> = nodes.iter().map(ToString::to_string).collect();
    if let Some(name) = names.iter().find(|name| !old.iter().any(|task| task.node_id == **name)) {
        return Err(StoreError::conflict(
            "operation.node_succeeded",
            format!("node {name} has nothing to retry in operation {id}; `fettle operation show` lists its nodes"),
        ));
    }
    old.retain(|task| names.contains(&task.node_id));
    Ok(old)
}

/// The operation has more nodes than there are ids.
#[must_use]
pub fn changed(id: OperationId) -> StoreError {
    StoreError::conflict("operation.changed", format!("operation {id} has changed; ask again"))
}
