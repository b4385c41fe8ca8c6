//! Rows of nodes.

use fettle_store::{
    StoreError,
    node::{Node, NodeCertificate, NodeFacts, NodeKeys, NodeStanding},
    secret::SecretHash,
};
use sqlx_macros::FromRow;

use crate::row;

/// The kind of record.
pub const WHAT: &str = "node";

/// A row as it is stored, and how many leases the node holds.
#[derive(FromRow)]
pub struct NodeRow {
    node_id: String,
    name: String,
    org_id: Option<String>,
    project_id: Option<String>,
    host_version: String,
    capabilities: String,
    labels: String,
    slots: i64,
    registered_at: i64,
    last_heartbeat_at: Option<i64>,
    running_tasks: i64,
    certificate_serial: Option<String>,
    certificate_authority: Option<String>,
    certificate_expires_at: Option<i64>,
    revoked_at: Option<i64>,
}

impl NodeRow {
    /// The node.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn node(self) -> Result<Node, StoreError> {
        Ok(Node {
            id: row::parse(WHAT, &self.node_id)?,
            owner: row::project(WHAT, self.org_id.as_deref(), self.project_id.as_deref())?,
            facts: NodeFacts {
                name: self.name,
                host_version: self.host_version,
                capabilities: row::document(WHAT, &self.capabilities)?,
                labels: row::document(WHAT, &self.labels)?,
                slots: row::number(WHAT, self.slots)?,
            },
            registered_at: row::time(WHAT, self.registered_at)?,
            last_heartbeat_at: row::optional_time(WHAT, self.last_heartbeat_at)?,
            running_tasks: row::number(WHAT, self.running_tasks)?,
            certificate: match (self.certificate_serial, self.certificate_authority, self.certificate_expires_at) {
                (Some(serial), Some(authority), Some(expires_at)) => {
                    Some(NodeCertificate { serial, authority, expires_at: row::time(WHAT, expires_at)? })
                }
                _ => None,
            },
            revoked_at: row::optional_time(WHAT, self.revoked_at)?,
        })
    }
}

/// What a node may do at all.
#[derive(FromRow)]
pub struct StandingRow {
    is_revoked: bool,
    secret_hash: String,
    asked_by_hash: Option<String>,
}

impl StandingRow {
    /// The standing.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn standing(self) -> Result<NodeStanding, StoreError> {
        let hash = |text: &str| -> Result<SecretHash, StoreError> { row::parse(WHAT, text) };
        let asked_by = self.asked_by_hash.as_deref().map(hash).transpose()?;
        Ok(NodeStanding { is_revoked: self.is_revoked, keys: NodeKeys { key: hash(&self.secret_hash)?, asked_by } })
    }
}

/// A join token that a node shows.
#[derive(FromRow)]
pub struct Joining {
    /// Its id.
    pub join_token_id: String,
    /// How many nodes may still join with it.
    pub uses_left: i64,
    /// The organisation that will own the node.
    pub org_id: Option<String>,
    /// The project that will own the node.
    pub project_id: Option<String>,
    /// Labels of the node that its host cannot change, as JSON.
    pub labels: String,
}

/// The token is unknown, expired or used up; which of them is not said.
#[must_use]
pub fn used_up() -> StoreError {
    StoreError::not_found("join token", "(secret)")
}

/// Another node has this name.
#[must_use]
pub fn name_taken(name: &str) -> StoreError {
    StoreError::conflict(
        "node.name_taken",
        format!("a node `{name}` exists already; start this host with its stored identity, or choose another name"),
    )
}

/// No certificate of the node counts.
#[must_use]
pub fn revoked(id: impl std::fmt::Display) -> StoreError {
    StoreError::conflict("node.revoked", format!("node {id} is revoked for good; let its host join under a new name"))
}

/// Two hosts with one key could not be told apart.
#[must_use]
pub fn key_taken() -> StoreError {
    StoreError::conflict(
        "node.key_taken",
        "another node has this key; was the data directory of a host copied? Remove its `certificate.json` and join anew",
    )
}
