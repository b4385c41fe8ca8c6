//! PUT /api/v1/projects/{project}/allocations/{allocation}

use axum::{Json, extract::State as Extracted};
use fettle_store::node_set::NodeSetKind;

use crate::{
    api::{
        Problem,
        extract::{Body, Path},
        problem::ProblemDocument,
        v1::projects::node_set::{self, NodeSetRequest, NodeSetView},
    },
    identity::InProject,
    state::State,
};

/// Makes an allocation, or replaces what it holds.
#[utoipa::path(put, path = "/api/v1/projects/{project}/allocations/{allocation}", tag = "allocations",
    params(
        ("project" = String, Path, description = "project"),
        ("allocation" = String, Path, description = "allocation"),
    ),
    request_body = NodeSetRequest,
    responses(
        (status = 200, description = "what it holds now", body = NodeSetView),
        (status = 404, description = "no such project, or not for the caller", body = ProblemDocument),
        (status = 422, description = "everything that is wrong with the request", body = ProblemDocument),
    ))]
pub(crate) async fn put(
    Extracted(state): Extracted<State>,
    InProject { caller, project }: InProject,
    Path((_owner, name)): Path<(String, String)>,
    Body(request): Body<NodeSetRequest>,
) -> Result<Json<NodeSetView>, Problem> {
    Ok(Json(node_set::put(&state, &caller, project, NodeSetKind::Allocation, &name, request).await?))
}
