//! DELETE /api/v1/projects/{project}/webhooks/{webhook}

use axum::{
    extract::{Path, State as Extracted},
    http::StatusCode,
};
use fettle_store::webhook::WebhookScope;

use crate::{
    api::{Problem, problem::ProblemDocument, v1::webhooks},
    identity::InProject,
    state::State,
};

/// Removes a webhook of a project, with what it could not be told.
#[utoipa::path(delete, path = "/api/v1/projects/{project}/webhooks/{webhook}", tag = "webhooks",
    params(
        ("project" = String, Path, description = "project"),
        ("webhook" = String, Path, description = "webhook"),
    ),
    responses(
        (status = 204, description = "it is gone"),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
    ))]
pub(crate) async fn delete(
    Extracted(state): Extracted<State>,
    InProject { caller, project }: InProject,
    Path((_owner, id)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let scope = WebhookScope::Project(project);
    webhooks::delete(&state, &caller, scope, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
