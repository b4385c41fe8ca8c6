//! POST /api/v1/projects/{project}/webhooks/{webhook}/rotate-secret

use axum::{
    Json,
    extract::{Path, State as Extracted},
};
use fettle_store::webhook::WebhookScope;

use crate::{
    api::{
        Problem,
        extract::OptionalBody,
        problem::ProblemDocument,
        v1::webhooks::{self, RotationRequest, WebhookWithSecret},
    },
    identity::InProject,
    state::State,
};

/// Gives a webhook of a project another secret. For a while requests are signed with both.
#[utoipa::path(post, path = "/api/v1/projects/{project}/webhooks/{webhook}/rotate-secret", tag = "webhooks",
    params(
        ("project" = String, Path, description = "project"),
        ("webhook" = String, Path, description = "webhook"),
    ),
    request_body = Option<RotationRequest>,
    responses(
        (status = 200, description = "the webhook, with its new secret", body = WebhookWithSecret),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
        (status = 422, description = "everything that is wrong with the request", body = ProblemDocument),
    ))]
pub(crate) async fn rotate_secret(
    Extracted(state): Extracted<State>,
    InProject { caller, project }: InProject,
    Path((_owner, id)): Path<(String, String)>,
    OptionalBody(request): OptionalBody<RotationRequest>,
) -> Result<Json<WebhookWithSecret>, Problem> {
    let scope = WebhookScope::Project(project);
    Ok(Json(webhooks::rotate(&state, &caller, scope, &id, &request).await?))
}
