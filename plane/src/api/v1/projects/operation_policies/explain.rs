//! POST /api/v1/projects/{project}/operation-policies/explain

use axum::{Json, extract::State as Extracted, http::HeaderMap};

use crate::{
    api::{Problem, extract::Body, problem::ProblemDocument, v1::projects::operations::request::NewOperationRequest},
    identity::InProject,
    policy::{self, Asked, decision::Decision},
    state::State,
    submission,
};

/// Says whether an operation would be accepted, and every rule that takes part in that. Nothing is stored.
#[utoipa::path(post, path = "/api/v1/projects/{project}/operation-policies/explain", tag = "operation policies",
    params(("project" = String, Path, description = "project")),
    request_body = NewOperationRequest,
    responses(
        (status = 200, description = "the decision", body = Decision),
        (status = 404, description = "no such project, or not for the caller", body = ProblemDocument),
        (status = 422, description = "everything that is wrong with the request", body = ProblemDocument),
    ))]
pub(crate) async fn explain(
    Extracted(state): Extracted<State>,
    InProject { caller, project }: InProject,
    headers: HeaderMap,
    Body(body): Body<NewOperationRequest>,
) -> Result<Json<Decision>, Problem> {
    let (submission, _) = body.read(&headers)?;
    let planned = submission::plan(&state, &project, &submission).await?;
    let context = caller.context();
    let asked = Asked::submission(&project, &submission, &planned, &context);
    Ok(Json(policy::decide(&state, &asked).await?))
}
