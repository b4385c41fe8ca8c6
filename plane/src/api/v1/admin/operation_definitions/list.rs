//! GET /api/v1/admin/operation-definitions

use axum::{Json, extract::State as Extracted};
use serde::Serialize;
use utoipa::ToSchema;

use super::view::DefinitionView;
use crate::{api::Problem, state::State};

/// All versions.
#[derive(Serialize, ToSchema)]
pub(crate) struct Definitions {
    /// By type, then by version.
    items: Vec<DefinitionView>,
}

/// Lists what is registered. Every token may look: it says which operations there are to submit.
#[utoipa::path(get, path = "/api/v1/admin/operation-definitions", tag = "operation definitions",
    responses((status = 200, description = "all versions", body = Definitions)))]
pub(crate) async fn list(Extracted(state): Extracted<State>) -> Result<Json<Definitions>, Problem> {
    let versions = state.store.definitions().await?;
    Ok(Json(Definitions { items: versions.iter().map(DefinitionView::brief).collect() }))
}
