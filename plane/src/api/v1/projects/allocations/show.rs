//! GET /api/v1/projects/{project}/allocations/{allocation}

use axum::{
    Json,
    extract::{Path, State as Extracted},
};
use fettle_store::{node_set::NodeSetKind, token::ProjectRole};

use crate::{
    api::{
        Problem,
        problem::ProblemDocument,
        v1::projects::node_set::{self, NodeSetView},
    },
    identity::Caller,
    state::State,
};

/// Shows an allocation.
#[utoipa::path(get, path = "/api/v1/projects/{project}/allocations/{allocation}", tag = "allocations",
    params(
        ("project" = String, Path, description = "project"),
        ("allocation" = String, Path, description = "allocation"),
    ),
    responses(
        (status = 200, description = "the allocation", body = NodeSetView),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
    ))]
pub(crate) async fn show(
    Extracted(state): Extracted<State>,
    caller: Caller,
    Path((project, name)): Path<(String, String)>,
) -> Result<Json<NodeSetView>, Problem> {
    let project = caller.project(&project, ProjectRole::Viewer, "allocation.show").await?;
    Ok(Json(node_set::show(&state, &project, NodeSetKind::Allocation, &name).await?))
}
