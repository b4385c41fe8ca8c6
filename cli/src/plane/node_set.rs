//! Node groups and allocations: named sets of a project's nodes.

use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{PlaneClient, PlaneError, view::Rest};

/// Which sets are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeSetKind {
    /// Those that a project makes for itself.
    Group,
    /// Those that a tenant gives to a project.
    Allocation,
}

/// A named set of nodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeSet {
    /// Its name.
    pub name: String,
    /// The project that owns it.
    pub project_id: String,
    /// Ids of its nodes.
    pub nodes: Vec<String>,
    /// RFC 3339.
    pub updated_at: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

impl NodeSetKind {
    /// What people call one.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Group => "node group",
            Self::Allocation => "allocation",
        }
    }

    /// The command for them.
    #[must_use]
    pub const fn command(self) -> &'static str {
        match self {
            Self::Group => "node-group",
            Self::Allocation => "allocation",
        }
    }

    /// The collection of the API.
    const fn collection(self) -> &'static str {
        match self {
            Self::Group => "node-groups",
            Self::Allocation => "allocations",
        }
    }
}

impl PlaneClient {
    fn node_set_path<'a>(&'a self, kind: NodeSetKind, name: Option<&'a str>) -> Vec<&'a str> {
        let mut path = vec!["projects", self.project(), kind.collection()];
        path.extend(name);
        path
    }

    /// All sets of the project.
    ///
    /// # Errors
    /// When the plane refuses or does not answer.
    pub async fn node_sets(&self, kind: NodeSetKind) -> Result<Vec<NodeSet>, PlaneError> {
        self.all(&self.node_set_path(kind, None)).await
    }

    /// One set.
    ///
    /// # Errors
    /// When there is none, or the plane does not answer.
    pub async fn node_set(&self, kind: NodeSetKind, name: &str) -> Result<NodeSet, PlaneError> {
        self.get(&self.node_set_path(kind, Some(name)), &[]).await
    }

    /// Makes a set, or replaces what it holds.
    ///
    /// # Errors
    /// When a node is unknown, or the plane refuses or does not answer.
    pub async fn put_node_set(&self, kind: NodeSetKind, name: &str, nodes: &[String]) -> Result<NodeSet, PlaneError> {
        let request = self.request(Method::PUT, &self.node_set_path(kind, Some(name)));
        self.answer(request.json(&json!({ "nodes": nodes }))).await
    }

    /// Removes a set.
    ///
    /// # Errors
    /// When there is none, or the plane refuses or does not answer.
    pub async fn delete_node_set(&self, kind: NodeSetKind, name: &str) -> Result<(), PlaneError> {
        self.accept(self.request(Method::DELETE, &self.node_set_path(kind, Some(name)))).await.map(drop)
    }
}
