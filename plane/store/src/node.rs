//! Nodes.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{StoreError, context::Context, id::NodeId, project::Project, secret::SecretHash};

/// What a host says of its node when it registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// The name its operator gave it.
    pub name: String,
    /// Version of the host program.
    pub host_version: String,
    /// Taxonomy of seed 001, 9.1.
    pub capabilities: BTreeMap<String, String>,
    /// What its operator calls it by: `region` -> `eu`. Target selectors see them.
    pub labels: BTreeMap<String, String>,
    /// Tasks it executes at once.
    pub slots: u32,
}

/// A certificate that a node was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCertificate {
    /// Its serial number, in hexadecimal.
    pub serial: String,
    /// The fingerprint of the authority that signed it.
    pub authority: String,
    /// When it counts no longer.
    pub expires_at: Timestamp,
}

/// A node that joins.
#[derive(Clone, Debug)]
pub struct NewNode {
    /// Its id, when it is new.
    pub id: NodeId,
    /// What its host says.
    pub facts: NodeFacts,
    /// Hash of its public key.
    pub hash: SecretHash,
}

/// The keys whose certificates count, as hashes of the public ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeKeys {
    /// The one that was certified last.
    pub key: SecretHash,
    /// The one that asked for it, whose holder may never have heard the answer.
    pub asked_by: Option<SecretHash>,
}

/// What an open connection of a node is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeStanding {
    /// Whether its certificates count no longer.
    pub is_revoked: bool,
    /// Whose certificates count otherwise.
    pub keys: NodeKeys,
}

impl NodeKeys {
    /// Whether a certificate for this key counts.
    #[must_use]
    pub fn count(&self, key: &SecretHash) -> bool {
        self.key == *key || self.asked_by.as_ref() == Some(key)
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// What its host said last.
    pub facts: NodeFacts,
    /// The project it belongs to; none is common to all projects.
    pub owner: Option<Project>,
    /// When it joined.
    pub registered_at: Timestamp,
    /// When it was last heard of; none right after it joined.
    pub last_heartbeat_at: Option<Timestamp>,
    /// How many tasks it holds.
    pub running_tasks: u32,
    /// The certificate it was given last.
    pub certificate: Option<NodeCertificate>,
    /// When its certificates were revoked, all of them and for good.
    pub revoked_at: Option<Timestamp>,
}

impl Node {
    /// Whether an operation of this project may be sent to it.
    #[must_use]
    pub fn is_for(&self, project: &Project) -> bool {
        self.owner.as_ref().is_none_or(|owner| owner == project)
    }
}

/// Nodes.
#[async_trait]
pub trait NodeStore: Send + Sync {
    /// Joins a node with a join token, and uses the token up by one. When the answer to the first try
    /// was lost, the same token joins the same name again, with the new key, as long as the node
    /// was never heard of.
    ///
    /// # Errors
    /// `NotFound` when the token is unknown, expired or used up; `Conflict` when the name is taken.
    async fn join_node(&self, node: NewNode, join_token: SecretHash, context: Context) -> Result<Node, StoreError>;

    /// Stores what a known node's host says now.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when the name is taken by another node.
    async fn update_node(&self, id: NodeId, facts: NodeFacts, context: Context) -> Result<Node, StoreError>;

    /// The node was given a certificate for the first of these keys. From now on certificates for these keys count, and
    /// for no other.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when the node is revoked, or the key is another node's.
    async fn record_certificate(
        &self,
        id: NodeId,
        keys: NodeKeys,
        certificate: NodeCertificate,
        context: Context,
    ) -> Result<(), StoreError>;

    /// No certificate of the node counts any more. Once is as good as twice.
    ///
    /// # Errors
    /// `NotFound`.
    async fn revoke_node(&self, id: NodeId, context: Context) -> Result<Node, StoreError>;

    /// The node is alive at `context.at`.
    ///
    /// # Errors
    /// `NotFound`.
    async fn record_heartbeat(&self, id: NodeId, context: Context) -> Result<(), StoreError>;

    /// One node by id.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn node(&self, id: NodeId) -> Result<Option<Node>, StoreError>;

    /// One node by name.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn node_by_name(&self, name: &str) -> Result<Option<Node>, StoreError>;

    /// What the node may do at all; none when it is unknown.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn node_standing(&self, id: NodeId) -> Result<Option<NodeStanding>, StoreError>;

    /// All nodes, by name.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn nodes(&self) -> Result<Vec<Node>, StoreError>;
}
