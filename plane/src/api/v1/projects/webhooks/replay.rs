//! POST /api/v1/projects/{project}/webhooks/{webhook}/dead-letters/replay

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
        v1::webhooks::{self, ReplayRequest, Replayed},
    },
    identity::InProject,
    state::State,
};

/// Has dead letters of a webhook of a project told again.
#[utoipa::path(post, path = "/api/v1/projects/{project}/webhooks/{webhook}/dead-letters/replay", tag = "webhooks",
    params(
        ("project" = String, Path, description = "project"),
        ("webhook" = String, Path, description = "webhook"),
    ),
    request_body = Option<ReplayRequest>,
    responses(
        (status = 200, description = "how many", body = Replayed),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
        (status = 422, description = "everything that is wrong with the request", body = ProblemDocument),
    ))]
pub(crate) async fn replay(
    Extracted(state): Extracted<State>,
    InProject { caller, project }: InProject,
    Path((_owner, id)): Path<(String, String)>,
    OptionalBody(request): OptionalBody<ReplayRequest>,
) -> Result<Json<Replayed>, Problem> {
    let scope = WebhookScope::Project(project);
    Ok(Json(webhooks::replay(&state, &caller, scope, &id, &request).await?))
}
