//! DELETE /api/v1/projects/{project}/operation-policies/{operation_type}

use axum::{
    extract::State as Extracted,
    http::{HeaderMap, StatusCode},
};
use fettle_store::policy::PolicyScope;

use crate::{
    api::{Problem, extract::Path, problem::ProblemDocument, v1::policies},
    identity::InProject,
    state::State,
};

/// Removes what a project says of an operation type.
#[utoipa::path(delete, path = "/api/v1/projects/{project}/operation-policies/{operation_type}", tag = "operation policies",
    params(
        ("project" = String, Path, description = "project"),
        ("operation_type" = String, Path, description = "operation type, without version"),
        ("If-Match" = String, Header, description = "the ETag that was read, or `*`"),
    ),
    responses(
        (status = 204, description = "removed"),
        (status = 404, description = "no such project, or not for the caller", body = ProblemDocument),
        (status = 403, description = "not an administrator of the tenant", body = ProblemDocument),
        (status = 412, description = "it is not what the request expects", body = ProblemDocument),
        (status = 428, description = "the request does not say what it expects", body = ProblemDocument),
    ))]
pub(crate) async fn delete(
    Extracted(state): Extracted<State>,
    InProject { caller, project }: InProject,
    Path((_owner, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    policies::delete(&state, &caller, PolicyScope::Project(project), &name, &headers).await
}
