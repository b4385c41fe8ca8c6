//! GET /api/v1/projects/{project}/node-groups/{group}

use axum::{Json, extract::State as Extracted};
use fettle_store::node_set::NodeSetKind;

use crate::{
    api::{
        Problem,
        extract::Path,
        problem::ProblemDocument,
        v1::projects::node_set::{self, NodeSetView},
    },
    identity::InProject,
    state::State,
};

/// Shows a node group.
#[utoipa::path(get, path = "/api/v1/projects/{project}/node-groups/{group}", tag = "node-groups",
    params(
        ("project" = String, Path, description = "project"),
        ("group" = String, Path, description = "node group"),
    ),
    responses(
        (status = 200, description = "the node group", body = NodeSetView),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
    ))]
pub(crate) async fn show(
    Extracted(state): Extracted<State>,
    InProject { project, .. }: InProject,
    Path((_owner, name)): Path<(String, String)>,
) -> Result<Json<NodeSetView>, Problem> {
    Ok(Json(node_set::show(&state, &project, NodeSetKind::Group, &name).await?))
}
