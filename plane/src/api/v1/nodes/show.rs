//! GET /api/v1/nodes/{node}

use axum::{
    Json,
    extract::{Path, State as Extracted},
};
use fettle_store::id::NodeId;

use super::view::{NodeView, is_visible};
use crate::{
    api::{Problem, problem::ProblemDocument},
    identity::Caller,
    state::State,
};

/// Shows one node.
#[utoipa::path(get, path = "/api/v1/nodes/{node}", tag = "nodes",
    params(("node" = String, Path, description = "name or id")),
    responses(
        (status = 200, description = "the node", body = NodeView),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
    ))]
pub(crate) async fn show(
    Extracted(state): Extracted<State>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<NodeView>, Problem> {
    let mut found = state.store.node_by_name(&name).await?;
    if let (None, Ok(id)) = (&found, name.parse::<NodeId>()) {
        found = state.store.node(id).await?;
    }
    let visible = found.filter(|node| is_visible(node, caller.access()));
    let node = visible.ok_or_else(|| Problem::not_found("node.unknown", format!("there is no node `{name}`")))?;
    Ok(Json(NodeView::new(node, &state)))
}
