//! POST /api/v1/nodes/{node}/revoke

use axum::{Json, extract::State as Extracted};

use super::view::NodeView;
use crate::{
    api::{Problem, problem::ProblemDocument},
    identity::{Caller, OfNode},
    state::State,
};

/// Revokes a node's certificates, all of them and for good: its stream ends, and it is not let in again. Its host can
/// join under a new name. What it holds is leased to nobody else; its operations end by their deadlines or by cancel.
#[utoipa::path(post, path = "/api/v1/nodes/{node}/revoke", tag = "nodes",
    params(("node" = String, Path, description = "name or id")),
    responses(
        (status = 200, description = "the node, which is revoked now or was before", body = NodeView),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
    ))]
pub(crate) async fn revoke(
    Extracted(state): Extracted<State>,
    caller: Caller,
    OfNode { node }: OfNode,
) -> Result<Json<NodeView>, Problem> {
    let node = state.store.revoke_node(node.id, caller.context()).await?;
    Ok(Json(NodeView::new(node, &state)))
}
