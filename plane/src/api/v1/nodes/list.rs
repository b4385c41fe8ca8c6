//! GET /api/v1/nodes

use axum::{Json, extract::State as Extracted};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::view::{NodeStatus, NodeView, status};
use crate::{
    api::{Problem, extract::Query, v1::page},
    identity::Caller,
    state::State,
};

/// Which nodes.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// `online` or `offline`.
    #[param(value_type = Option<String>)]
    status: Option<NodeStatus>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
    /// 1 to 1000; 50 when absent.
    #[param(minimum = 1, maximum = 1000)]
    page_size: Option<u32>,
}

/// A page of nodes.
#[derive(Serialize, ToSchema)]
pub(crate) struct Nodes {
    /// By name.
    items: Vec<NodeView>,
    /// Pass it as `cursor` for the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// Lists the nodes that the caller's projects may use.
#[utoipa::path(get, path = "/api/v1/nodes", tag = "nodes",
    params(Filter),
    responses((status = 200, description = "a page", body = Nodes)))]
pub(crate) async fn list(
    Extracted(state): Extracted<State>,
    caller: Caller,
    Query(filter): Query<Filter>,
) -> Result<Json<Nodes>, Problem> {
    let size = page::size(filter.page_size)?;
    let mut nodes = state.store.nodes().await?;
    nodes.retain(|node| caller.sees(node) && filter.status.is_none_or(|wanted| status(node, &state) == wanted));
    let (nodes, next_cursor) = page::of(nodes, filter.cursor.as_ref(), size, |node| node.facts.name.clone());
    Ok(Json(Nodes { items: nodes.into_iter().map(|node| NodeView::new(node, &state)).collect(), next_cursor }))
}
