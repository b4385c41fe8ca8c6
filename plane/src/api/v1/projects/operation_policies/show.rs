//! GET /api/v1/projects/{project}/operation-policies/{operation_type}

use axum::{extract::State as Extracted, response::Response};

use crate::{
    api::{
        Problem,
        extract::Path,
        problem::ProblemDocument,
        v1::policies::{self, PolicyView},
    },
    identity::InProject,
    state::State,
};

/// Shows what a project says of an operation type, if anything, and what holds there with the reason for each value.
#[utoipa::path(get, path = "/api/v1/projects/{project}/operation-policies/{operation_type}", tag = "operation policies",
    params(
        ("project" = String, Path, description = "project"),
        ("operation_type" = String, Path, description = "operation type, without version"),
    ),
    responses(
        (status = 200, description = "the overlay; its ETag is that of a change", body = PolicyView,
            headers(("ETag" = String, description = "pass it as `If-Match`"))),
        (status = 404, description = "no such project, or not for the caller", body = ProblemDocument),
    ))]
pub(crate) async fn show(
    Extracted(state): Extracted<State>,
    InProject { project, .. }: InProject,
    Path((_owner, name)): Path<(String, String)>,
) -> Result<Response, Problem> {
    policies::show_resolved(&state, project, &name).await
}
