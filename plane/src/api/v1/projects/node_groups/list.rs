//! GET /api/v1/projects/{project}/node-groups

use axum::{Json, extract::State as Extracted};
use fettle_store::node_set::NodeSetKind;

use crate::{
    api::{
        Problem,
        problem::ProblemDocument,
        v1::projects::node_set::{self, NodeSets},
    },
    identity::InProject,
    state::State,
};

/// Lists the node groups of a project.
#[utoipa::path(get, path = "/api/v1/projects/{project}/node-groups", tag = "node-groups",
    params(("project" = String, Path, description = "project")),
    responses(
        (status = 200, description = "the node groups", body = NodeSets),
        (status = 404, description = "no such project, or not for the caller", body = ProblemDocument),
    ))]
pub(crate) async fn list(
    Extracted(state): Extracted<State>,
    InProject { project, .. }: InProject,
) -> Result<Json<NodeSets>, Problem> {
    Ok(Json(node_set::list(&state, &project, NodeSetKind::Group).await?))
}
