//! From what somebody asks for to nodes that the project may use. A caller's word about ownership counts for nothing.

use std::collections::BTreeSet;

use fettle_model::{
    definition::Requirements,
    overlay::TargetKind,
    selector::{LabelExpression, NodeView, SelectorError},
    violation::Violation,
};
use fettle_store::{StoreError, id::NodeId, node::Node, node_set::NodeSetKind, project::Project};
use serde::{Deserialize, Serialize};

use crate::state::State;

/// Nodes of one operation at most.
pub(crate) const MOST_NODES: usize = 10_000;

/// Which nodes (seed 001, 4.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TargetSelector {
    /// One, by name or id.
    Node(String),
    /// All of which an expression is true.
    Label(String),
    /// Those of an allocation of the project.
    Allocation(String),
    /// Those of a node group of the project.
    Group(String),
}

impl TargetSelector {
    /// What it names.
    pub(crate) const fn kind(&self) -> TargetKind {
        match self {
            Self::Node(_) => TargetKind::Node,
            Self::Label(_) => TargetKind::Label,
            Self::Allocation(_) => TargetKind::Allocation,
            Self::Group(_) => TargetKind::Group,
        }
    }

    /// Where it stands in a request.
    fn pointer(&self) -> String {
        format!("/target_selector/{}", self.kind().name())
    }

    fn wrong(&self, message: impl Into<String>) -> Violation {
        Violation::new(self.pointer(), message)
    }
}

/// The nodes that are meant, by name. What is wrong is added to `found`.
pub(crate) async fn resolve(
    state: &State,
    project: &Project,
    selector: &TargetSelector,
    found: &mut Vec<Violation>,
) -> Result<Vec<Node>, StoreError> {
    let nodes = match selector {
        TargetSelector::Node(name) => one(state, project, name).await?,
        TargetSelector::Label(expression) => labelled(state, project, expression).await?,
        TargetSelector::Allocation(name) => set(state, project, NodeSetKind::Allocation, name).await?,
        TargetSelector::Group(name) => set(state, project, NodeSetKind::Group, name).await?,
    };
    match nodes {
        Ok(nodes) if nodes.len() > MOST_NODES => {
            let message = format!("it stands for {} nodes; an operation has at most {MOST_NODES}", nodes.len());
            found.push(selector.wrong(message));
            Ok(Vec::new())
        }
        Ok(nodes) => Ok(nodes),
        Err(message) => {
            found.push(selector.wrong(message));
            Ok(Vec::new())
        }
    }
}

type Resolved = Result<Vec<Node>, String>;

/// The node, if the project may use it. One of another project is as unknown as one that is not there.
async fn one(state: &State, project: &Project, name: &str) -> Result<Resolved, StoreError> {
    let node = match state.reads.node_by_name(name).await? {
        Some(node) => Some(node),
        None => match name.parse::<NodeId>() {
            Ok(id) => state.store.node(id).await?,
            Err(_) => None,
        },
    };
    Ok(match node.filter(|node| node.is_for(project)) {
        Some(node) if node.revoked_at.is_some() => Err(revoked(&node)),
        Some(node) => Ok(vec![node]),
        None => Err(format!(
            "there is no node `{name}` that project `{}` may use; `fettle node list` shows those it may",
            project.project_id
        )),
    })
}

fn revoked(node: &Node) -> String {
    format!("node `{}` is revoked: it takes no task any more", node.facts.name)
}

async fn labelled(state: &State, project: &Project, text: &str) -> Result<Resolved, StoreError> {
    let expression = match LabelExpression::parse(text) {
        Ok(expression) => expression,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let mut nodes = state.store.nodes().await?;
    nodes.retain(|node| node.is_for(project) && node.revoked_at.is_none());
    let matches = |node: &Node| {
        let facts = &node.facts;
        expression.matches(NodeView { name: &facts.name, labels: &facts.labels, capabilities: &facts.capabilities })
    };
    let chosen: Result<Vec<Node>, SelectorError> =
        nodes.into_iter().filter_map(|node| matches(&node).map(|yes| yes.then_some(node)).transpose()).collect();
    Ok(match chosen {
        Ok(nodes) if nodes.is_empty() => Err(format!(
            "it is true of no node that project `{}` may use; `fettle node list` shows their labels",
            project.project_id
        )),
        Ok(nodes) => Ok(nodes),
        Err(error) => Err(error.to_string()),
    })
}

/// Nodes that left the project meanwhile are an error, not left out: whoever named the set meant all of it.
async fn set(state: &State, project: &Project, kind: NodeSetKind, name: &str) -> Result<Resolved, StoreError> {
    let Ok(label) = name.parse() else {
        return Ok(Err(format!("`{name}` is no name of a {}", kind.words())));
    };
    let Some(set) = state.store.node_set(&project.project_id, kind, &label).await? else {
        return Ok(Err(format!("there is no {} `{name}` in project `{}`", kind.words(), project.project_id)));
    };
    let mut nodes = Vec::with_capacity(set.nodes.len());
    for id in &set.nodes {
        match state.store.node(*id).await?.filter(|node| node.is_for(project)) {
            Some(node) if node.revoked_at.is_some() => return Ok(Err(revoked(&node))),
            Some(node) => nodes.push(node),
            None => return Ok(Err(format!("node {id} of {} `{name}` is not the project's any more", kind.words()))),
        }
    }
    if nodes.is_empty() {
        return Ok(Err(format!("{} `{name}` has no nodes", kind.words())));
    }
    nodes.sort_by(|one, other| one.facts.name.cmp(&other.facts.name));
    Ok(Ok(nodes))
}

/// Says for each node what it lacks.
pub(crate) fn check_requirements(
    operation: &str,
    requires: &Requirements,
    selector: &TargetSelector,
    nodes: &[Node],
    found: &mut Vec<Violation>,
) {
    let mut said = BTreeSet::new();
    for node in nodes {
        for (key, accepted) in &requires.capabilities {
            let actual = node.facts.capabilities.get(key);
            if actual.is_some_and(|actual| accepted.contains(actual)) || !said.insert((key, &node.facts.name)) {
                continue;
            }
            let accepted = accepted.iter().map(String::as_str).collect::<Vec<_>>().join(" or ");
            let actual = actual.map_or("unknown", String::as_str);
            found.push(selector.wrong(format!(
                "node `{}` has {key} {actual}, and {operation} needs {accepted}; choose another node",
                node.facts.name
            )));
        }
    }
}
