//! GET /api/v1/projects/{project}/node-groups

use axum::{Json, extract::State as Extracted};
use fettle_store::node_set::NodeSetKind;

use crate::{
    api::{
        Problem,
        extract::Query,
        problem::ProblemDocument,
        v1::projects::node_set::{self, Filter, NodeSets},
    },
    identity::InProject,
    state::State,
};

/// Lists the node groups of a project.
#[utoipa::path(get, path = "/api/v1/projects/{project}/node-groups", tag = "node-groups",
    params(("project" = String, Path, description = "project"), Filter),
    responses(
        (status = 200, description = "a page", body = NodeSets),
        (status = 404, description = "no such project, or not for the caller", body = ProblemDocument),
    ))]
pub(crate) async fn list(
    Extracted(state): Extracted<State>,
    InProject { project, .. }: InProject,
    Query(filter): Query<Filter>,
) -> Result<Json<NodeSets>, Problem> {
    Ok(Json(node_set::list(&state, &project, NodeSetKind::Group, filter).await?))
}
