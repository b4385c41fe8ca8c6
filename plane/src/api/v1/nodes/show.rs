//! GET /api/v1/nodes/{node}

use axum::{Json, extract::State as Extracted};

use super::view::NodeView;
use crate::{api::problem::ProblemDocument, identity::OfNode, state::State};

/// Shows one node.
#[utoipa::path(get, path = "/api/v1/nodes/{node}", tag = "nodes",
    params(("node" = String, Path, description = "name or id")),
    responses(
        (status = 200, description = "the node", body = NodeView),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
    ))]
pub(crate) async fn show(Extracted(state): Extracted<State>, OfNode { node }: OfNode) -> Json<NodeView> {
    Json(NodeView::new(node, &state))
}
