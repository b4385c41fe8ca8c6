//! GET /api/v1/projects/{project}/operation-policies

use axum::{Json, extract::State as Extracted};
use fettle_store::policy::PolicyScope;

use crate::{
    api::{
        Problem,
        extract::Query,
        problem::ProblemDocument,
        v1::policies::{self, Filter, Policies},
    },
    identity::InProject,
    state::State,
};

/// Lists the overlays of a project.
#[utoipa::path(get, path = "/api/v1/projects/{project}/operation-policies", tag = "operation policies",
    params(("project" = String, Path, description = "project"), Filter),
    responses(
        (status = 200, description = "a page", body = Policies),
        (status = 404, description = "no such project, or not for the caller", body = ProblemDocument),
    ))]
pub(crate) async fn list(
    Extracted(state): Extracted<State>,
    InProject { project, .. }: InProject,
    Query(filter): Query<Filter>,
) -> Result<Json<Policies>, Problem> {
    policies::list(&state, &PolicyScope::Project(project), filter).await
}
