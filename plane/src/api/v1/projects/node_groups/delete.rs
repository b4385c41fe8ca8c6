//! DELETE /api/v1/projects/{project}/node-groups/{group}

use axum::{extract::State as Extracted, http::StatusCode};
use fettle_store::node_set::NodeSetKind;

use crate::{
    api::{Problem, extract::Path, problem::ProblemDocument, v1::projects::node_set},
    identity::InProject,
    state::State,
};

/// Removes a node group; operations that were made of it stay.
#[utoipa::path(delete, path = "/api/v1/projects/{project}/node-groups/{group}", tag = "node-groups",
    params(
        ("project" = String, Path, description = "project"),
        ("group" = String, Path, description = "node group"),
    ),
    responses(
        (status = 204, description = "it is gone"),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
    ))]
pub(crate) async fn delete(
    Extracted(state): Extracted<State>,
    InProject { caller, project }: InProject,
    Path((_owner, name)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    node_set::delete(&state, &caller, &project, NodeSetKind::Group, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}
