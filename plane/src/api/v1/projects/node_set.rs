//! Sets of nodes as they are shown and asked for.

use fettle_model::{name::Label, violation::Violation};
use fettle_store::{
    node_set::{NodeSet, NodeSetKind},
    project::Project,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    api::{Problem, v1::page},
    identity::Caller,
    state::State,
    target::{MOST_NODES, TargetSelector, resolve},
};

/// A named set of nodes.
#[derive(Serialize, ToSchema)]
pub(crate) struct NodeSetView {
    /// Its name.
    name: String,
    /// The project that owns it.
    project_id: String,
    /// Ids of its nodes.
    nodes: Vec<String>,
    /// RFC 3339.
    updated_at: String,
}

/// A page of named sets of nodes.
#[derive(Serialize, ToSchema)]
pub(crate) struct NodeSets {
    /// By name.
    items: Vec<NodeSetView>,
    /// Pass it as `cursor` for the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// Which sets.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// `next_cursor` of the page before.
    cursor: Option<String>,
    /// 1 to 1000; 50 when absent.
    #[param(minimum = 1, maximum = 1000)]
    page_size: Option<u32>,
}

/// What a set shall hold.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeSetRequest {
    /// Names or ids of nodes that the project may use; 1 to 10000.
    nodes: Vec<String>,
}

impl From<NodeSet> for NodeSetView {
    fn from(set: NodeSet) -> Self {
        Self {
            name: set.name.to_string(),
            project_id: set.project.project_id.to_string(),
            nodes: set.nodes.iter().map(ToString::to_string).collect(),
            updated_at: set.updated_at.to_string(),
        }
    }
}

/// The sets of a project.
pub(super) async fn list(
    state: &State,
    project: &Project,
    kind: NodeSetKind,
    filter: Filter,
) -> Result<NodeSets, Problem> {
    let size = page::size(filter.page_size)?;
    let sets = state.store.node_sets(&project.project_id, kind).await?;
    let (sets, next_cursor) = page::of(sets, filter.cursor.as_ref(), size, |set| set.name.to_string());
    Ok(NodeSets { items: sets.into_iter().map(NodeSetView::from).collect(), next_cursor })
}

/// One set, or 404.
pub(super) async fn show(
    state: &State,
    project: &Project,
    kind: NodeSetKind,
    name: &str,
) -> Result<NodeSetView, Problem> {
    let found = match name.parse::<Label>() {
        Ok(label) => state.store.node_set(&project.project_id, kind, &label).await?,
        Err(_) => None,
    };
    found.map(NodeSetView::from).ok_or_else(|| unknown(project, kind, name))
}

/// Makes a set, or replaces what it holds.
pub(super) async fn put(
    state: &State,
    caller: &Caller,
    project: Project,
    kind: NodeSetKind,
    name: &str,
    request: NodeSetRequest,
) -> Result<NodeSetView, Problem> {
    let label = name.parse::<Label>();
    let label = label.map_err(|error| Problem::invalid(vec![Violation::new("name", error.to_string())]))?;
    let nodes = find_nodes(state, &project, request.nodes).await?;
    let set = NodeSet { kind, name: label, project, nodes, updated_at: state.clock.now() };
    state.store.put_node_set(set.clone(), caller.context()).await?;
    Ok(set.into())
}

async fn find_nodes(
    state: &State,
    project: &Project,
    names: Vec<String>,
) -> Result<Vec<fettle_store::id::NodeId>, Problem> {
    if names.is_empty() || names.len() > MOST_NODES {
        return Err(Problem::invalid(vec![Violation::new("/nodes", format!("write 1 to {MOST_NODES} nodes"))]));
    }
    let (mut nodes, mut found) = (Vec::with_capacity(names.len()), Vec::new());
    for (index, name) in names.into_iter().enumerate() {
        let mut wrong = Vec::new();
        let resolved = resolve(state, project, &TargetSelector::Node(name), &mut wrong).await?;
        found.extend(wrong.into_iter().map(|violation| Violation::new(format!("/nodes/{index}"), violation.message)));
        nodes.extend(resolved.into_iter().map(|node| node.id));
    }
    if !found.is_empty() {
        return Err(Problem::invalid(found));
    }
    nodes.sort_unstable();
    nodes.dedup();
    Ok(nodes)
}

/// Removes a set, or 404.
pub(super) async fn delete(
    state: &State,
    caller: &Caller,
    project: &Project,
    kind: NodeSetKind,
    name: &str,
) -> Result<(), Problem> {
    let label: Label = name.parse().map_err(|_| unknown(project, kind, name))?;
    match state.store.delete_node_set(&project.project_id, kind, &label, caller.context()).await {
        Err(fettle_store::StoreError::NotFound { .. }) => Err(unknown(project, kind, name)),
        other => Ok(other?),
    }
}

fn unknown(project: &Project, kind: NodeSetKind, name: &str) -> Problem {
    let (code, words) = match kind {
        NodeSetKind::Group => ("node_group.unknown", "node group"),
        NodeSetKind::Allocation => ("allocation.unknown", "allocation"),
    };
    Problem::not_found(code, format!("there is no {words} `{name}` in project `{}`", project.project_id))
}
