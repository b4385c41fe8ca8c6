//! Rows of sets of nodes.

use fettle_store::{
    StoreError,
    node_set::{NodeSet, NodeSetKind},
    project::Project,
};
use sqlx_macros::FromRow;

use crate::row;

const WHAT: &str = "node set";

/// A kind that this version does not know.
#[derive(Debug, thiserror::Error)]
#[error("node set kind `{0}` is unknown")]
struct UnknownKind(String);

/// A row as it is stored.
#[derive(FromRow)]
pub struct NodeSetRow {
    project_id: String,
    org_id: String,
    kind: String,
    name: String,
    nodes: String,
    updated_at: i64,
}

impl NodeSetRow {
    /// The set.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn set(self) -> Result<NodeSet, StoreError> {
        Ok(NodeSet {
            kind: NodeSetKind::from_name(&self.kind)
                .ok_or_else(|| StoreError::corrupt(WHAT, UnknownKind(self.kind)))?,
            name: row::parse(WHAT, &self.name)?,
            project: Project {
                project_id: row::parse(WHAT, &self.project_id)?,
                org_id: row::parse(WHAT, &self.org_id)?,
            },
            nodes: row::document(WHAT, &self.nodes)?,
            updated_at: row::time(WHAT, self.updated_at)?,
        })
    }
}

/// The name of a set as a resource.
#[must_use]
pub fn resource_name(project: &str, kind: NodeSetKind, name: &str) -> String {
    let collection = match kind {
        NodeSetKind::Group => "node-groups",
        NodeSetKind::Allocation => "allocations",
    };
    format!("projects/{project}/{collection}/{name}")
}
