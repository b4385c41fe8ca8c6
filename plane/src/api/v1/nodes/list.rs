//! GET /api/v1/nodes

use axum::{Json, extract::State as Extracted};
use serde::Serialize;
use utoipa::ToSchema;

use super::view::NodeView;
use crate::{api::Problem, identity::Caller, state::State};

/// Nodes.
#[derive(Serialize, ToSchema)]
pub(crate) struct Nodes {
    /// By name.
    items: Vec<NodeView>,
}

/// Lists the nodes that the caller's projects may use.
#[utoipa::path(get, path = "/api/v1/nodes", tag = "nodes",
    responses((status = 200, description = "the nodes", body = Nodes)))]
pub(crate) async fn list(Extracted(state): Extracted<State>, caller: Caller) -> Result<Json<Nodes>, Problem> {
    let nodes = state.store.nodes().await?;
    let visible = nodes.into_iter().filter(|node| caller.sees(node));
    Ok(Json(Nodes { items: visible.map(|node| NodeView::new(node, &state)).collect() }))
}
