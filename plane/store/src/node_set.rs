//! Named sets of nodes that operations can be sent to.

use async_trait::async_trait;
use fettle_model::name::Label;
use jiff::Timestamp;

use crate::{StoreError, context::Context, id::NodeId, project::Project};

/// Who makes the set, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeSetKind {
    /// A project's own name for some nodes.
    Group,
    /// What was given to a project.
    Allocation,
}

/// Nodes under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSet {
    /// What it is for.
    pub kind: NodeSetKind,
    /// Unique in the project, for its kind.
    pub name: Label,
    /// Who owns it.
    pub project: Project,
    /// Each once.
    pub nodes: Vec<NodeId>,
    /// When it was made or changed.
    pub updated_at: Timestamp,
}

impl NodeSetKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Group, Self::Allocation];

    /// The name in documents and databases.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Allocation => "allocation",
        }
    }

    /// What people call it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Group => "node group",
            Self::Allocation => "allocation",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Sets of nodes.
#[async_trait]
pub trait NodeSetStore: Send + Sync {
    /// Makes a set, or replaces what it holds.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn put_node_set(&self, set: NodeSet, context: Context) -> Result<(), StoreError>;

    /// One set of a project.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn node_set(&self, project: &Label, kind: NodeSetKind, name: &Label) -> Result<Option<NodeSet>, StoreError>;

    /// The sets of a project, by name.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn node_sets(&self, project: &Label, kind: NodeSetKind) -> Result<Vec<NodeSet>, StoreError>;

    /// Removes a set. Operations that were made of it stay.
    ///
    /// # Errors
    /// `NotFound`.
    async fn delete_node_set(
        &self,
        project: &Label,
        kind: NodeSetKind,
        name: &Label,
        context: Context,
    ) -> Result<(), StoreError>;
}
