//! PATCH /api/v1/admin/operation-definitions/{id}

use axum::{Json, extract::State as Extracted};
use fettle_store::definition::{DefinitionChange, DefinitionStatus};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{create::sources, find::find, view::DefinitionView};
use crate::{
    api::{
        Problem,
        extract::{Body, Path},
        problem::ProblemDocument,
    },
    identity::Caller,
    registration,
    state::State,
};

/// What becomes of a draft. What is absent stays as it is.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Amendment {
    /// `host:port/repository@sha256:<hex>` of the operation definition.
    #[schema(pattern = "^[^ @]+/[^ @]+@sha256:[0-9a-f]{64}$")]
    definition: Option<String>,
    /// The same of the step catalog.
    #[schema(pattern = "^[^ @]+/[^ @]+@sha256:[0-9a-f]{64}$")]
    catalog: Option<String>,
    /// The same of the policy bundle.
    #[schema(pattern = "^[^ @]+/[^ @]+@sha256:[0-9a-f]{64}$")]
    policy: Option<String>,
    /// Whether it is published: from then on it can be used, and never changes.
    #[serde(default)]
    publish: bool,
}

/// Changes a draft, publishes it, or both. The documents are fetched, verified and checked as when a version
/// is registered.
#[utoipa::path(patch, path = "/api/v1/admin/operation-definitions/{id}", tag = "operation definitions",
    params(("id" = String, Path, description = "id, or `operation_type@version`")),
    request_body = Amendment,
    responses(
        (status = 200, description = "the version as it is now", body = DefinitionView),
        (status = 403, description = "not a platform administrator", body = ProblemDocument),
        (status = 404, description = "there is none", body = ProblemDocument),
        (status = 409, description = "it is no draft, or the document is of another version", body = ProblemDocument),
        (status = 422, description = "a document is unsigned, malformed or unsound", body = ProblemDocument),
        (status = 502, description = "a document cannot be fetched now", body = ProblemDocument),
    ))]
pub(crate) async fn amend(
    Extracted(state): Extracted<State>,
    caller: Caller,
    Path(name): Path<String>,
    Body(body): Body<Amendment>,
) -> Result<Json<DefinitionView>, Problem> {
    let version = find(&state, &name).await?;
    let known = &version.sources;
    let sources = sources([
        &body.definition.unwrap_or_else(|| known.definition.to_string()),
        &body.catalog.unwrap_or_else(|| known.catalog.to_string()),
        &body.policy.unwrap_or_else(|| known.policy.to_string()),
    ])?;
    let status = if body.publish { DefinitionStatus::Published } else { DefinitionStatus::Draft };
    let new = registration::prepare(&state, sources, status).await?;
    let change = DefinitionChange::Amend(Box::new(new));
    let changed = registration::change(&state, &version, change, caller.context()).await?;
    Ok(Json(DefinitionView::whole(&changed)))
}
