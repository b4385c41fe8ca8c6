//! GET /api/v1/projects/{project}/webhooks/{webhook}

use axum::{
    Json,
    extract::{Path, State as Extracted},
};
use fettle_store::webhook::WebhookScope;

use crate::{
    api::{
        Problem,
        problem::ProblemDocument,
        v1::webhooks::{self, WebhookView},
    },
    identity::InProject,
    state::State,
};

/// Shows a webhook of a project, and what came of the last attempt.
#[utoipa::path(get, path = "/api/v1/projects/{project}/webhooks/{webhook}", tag = "webhooks",
    params(
        ("project" = String, Path, description = "project"),
        ("webhook" = String, Path, description = "webhook"),
    ),
    responses(
        (status = 200, description = "the webhook", body = WebhookView),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
    ))]
pub(crate) async fn show(
    Extracted(state): Extracted<State>,
    InProject { project, .. }: InProject,
    Path((_owner, id)): Path<(String, String)>,
) -> Result<Json<WebhookView>, Problem> {
    let scope = WebhookScope::Project(project);
    Ok(Json(webhooks::show(&state, &scope, &id).await?))
}
