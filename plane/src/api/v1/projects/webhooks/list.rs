//! GET /api/v1/projects/{project}/webhooks

use axum::{Json, extract::State as Extracted};
use fettle_store::webhook::WebhookScope;

use crate::{
    api::{
        Problem,
        problem::ProblemDocument,
        v1::webhooks::{self, Webhooks},
    },
    identity::InProject,
    state::State,
};

/// Lists the webhooks of a project.
#[utoipa::path(get, path = "/api/v1/projects/{project}/webhooks", tag = "webhooks",
    params(
        ("project" = String, Path, description = "project"),
    ),
    responses(
        (status = 200, description = "the webhooks", body = Webhooks),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
    ))]
pub(crate) async fn list(
    Extracted(state): Extracted<State>,
    InProject { project, .. }: InProject,
) -> Result<Json<Webhooks>, Problem> {
    let scope = WebhookScope::Project(project);
    Ok(Json(webhooks::list(&state, &scope).await?))
}
