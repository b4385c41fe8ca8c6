//! POST /api/v1/admin/operation-definitions

use axum::{Json, extract::State as Extracted, http::StatusCode};
use fettle_model::{plan::Sources, reference::Reference, violation::Violation};
use fettle_store::definition::{DefinitionStatus, Registered};
use serde::Deserialize;
use utoipa::ToSchema;

use super::view::DefinitionView;
use crate::{
    api::{Problem, extract::Body, problem::ProblemDocument},
    identity::Caller,
    registration,
    state::State,
};

/// Three signed documents, by digest.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewDefinition {
    /// `host:port/repository@sha256:<hex>` of the operation definition.
    #[schema(pattern = "^[^ @]+/[^ @]+@sha256:[0-9a-f]{64}$")]
    definition: String,
    /// The same of the step catalog.
    #[schema(pattern = "^[^ @]+/[^ @]+@sha256:[0-9a-f]{64}$")]
    catalog: String,
    /// The same of the policy bundle.
    #[schema(pattern = "^[^ @]+/[^ @]+@sha256:[0-9a-f]{64}$")]
    policy: String,
    /// Whether it stays a draft: it can be amended, and no operation can be made of it yet.
    #[serde(default)]
    draft: bool,
}

/// Fetches, verifies, checks and registers a version of an operation definition.
#[utoipa::path(post, path = "/api/v1/admin/operation-definitions", tag = "operation definitions",
    request_body = NewDefinition,
    responses(
        (status = 201, description = "registered", body = DefinitionView),
        (status = 200, description = "was registered before with the same content", body = DefinitionView),
        (status = 403, description = "not a platform administrator", body = ProblemDocument),
        (status = 409, description = "the version exists with another content", body = ProblemDocument),
        (status = 422, description = "a document is unsigned, malformed or unsound", body = ProblemDocument),
        (status = 502, description = "a document cannot be fetched now", body = ProblemDocument),
    ))]
pub(crate) async fn create(
    Extracted(state): Extracted<State>,
    caller: Caller,
    Body(body): Body<NewDefinition>,
) -> Result<(StatusCode, Json<DefinitionView>), Problem> {
    let status = if body.draft { DefinitionStatus::Draft } else { DefinitionStatus::Published };
    let sources = sources([&body.definition, &body.catalog, &body.policy])?;
    let version = registration::prepare(&state, sources, status).await?;
    let (status, version) = match registration::register(&state, version, caller.context()).await? {
        Registered::New(version) => (StatusCode::CREATED, version),
        Registered::Same(version) => (StatusCode::OK, version),
    };
    Ok((status, Json(DefinitionView::whole(&version))))
}

/// The three references: definition, catalog, policy bundle.
pub(super) fn sources([definition, catalog, policy]: [&str; 3]) -> Result<Sources, Problem> {
    let mut found = Vec::new();
    let mut read = |pointer: &str, text: &str| {
        text.parse::<Reference>().map_err(|error| found.push(Violation::new(pointer, error.to_string())))
    };
    let definition = read("/definition", definition);
    let catalog = read("/catalog", catalog);
    let policy = read("/policy", policy);
    match (definition, catalog, policy) {
        (Ok(definition), Ok(catalog), Ok(policy)) => Ok(Sources { definition, catalog, policy }),
        _ => Err(Problem::invalid(found)),
    }
}
