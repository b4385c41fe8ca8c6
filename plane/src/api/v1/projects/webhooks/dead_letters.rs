//! GET /api/v1/projects/{project}/webhooks/{webhook}/dead-letters

use axum::{
    Json,
    extract::{Path, State as Extracted},
};
use fettle_store::webhook::WebhookScope;

use crate::{
    api::{
        Problem,
        extract::Query,
        problem::ProblemDocument,
        v1::webhooks::{self, DeadLetters, Filter},
    },
    identity::InProject,
    state::State,
};

/// Lists the events that a webhook of a project could not be told.
#[utoipa::path(get, path = "/api/v1/projects/{project}/webhooks/{webhook}/dead-letters", tag = "webhooks",
    params(
        ("project" = String, Path, description = "project"),
        ("webhook" = String, Path, description = "webhook"),
        Filter,
    ),
    responses(
        (status = 200, description = "a page", body = DeadLetters),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
        (status = 422, description = "everything that is wrong with the request", body = ProblemDocument),
    ))]
pub(crate) async fn dead_letters(
    Extracted(state): Extracted<State>,
    InProject { project, .. }: InProject,
    Path((_owner, id)): Path<(String, String)>,
    Query(filter): Query<Filter>,
) -> Result<Json<DeadLetters>, Problem> {
    let scope = WebhookScope::Project(project);
    Ok(Json(webhooks::dead_letters(&state, &scope, &id, &filter).await?))
}
