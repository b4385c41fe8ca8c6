//! GET /api/v1/projects/{project}/operations/{operation_id}/decision

use axum::{Json, extract::State as Extracted};
use serde_json::Value;

use super::find;
use crate::{
    api::{Problem, extract::Path, problem::ProblemDocument},
    identity::InProject,
    policy::decision::Decision,
    state::State,
};

/// Shows why an operation was accepted: the policies that took part, as they were then.
#[utoipa::path(get, path = "/api/v1/projects/{project}/operations/{operation_id}/decision", tag = "operations",
    params(
        ("project" = String, Path, description = "project"),
        ("operation_id" = String, Path, description = "operation"),
    ),
    responses(
        (status = 200, description = "the decision", body = Decision),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
    ))]
pub(crate) async fn decision(
    Extracted(state): Extracted<State>,
    InProject { project, .. }: InProject,
    Path((_owner, id)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    let operation = find(&state, &project, &id).await?;
    let decision = state.store.decision(&project.project_id, operation.id).await?;
    decision.map(Json).ok_or_else(|| {
        let detail = format!("operation {} was accepted before decisions were kept", operation.id);
        Problem::not_found("decision.unknown", detail)
    })
}
