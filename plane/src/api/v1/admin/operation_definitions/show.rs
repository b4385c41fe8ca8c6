//! GET /api/v1/admin/operation-definitions/{id}

use axum::{
    Json,
    extract::{Path, State as Extracted},
};
use fettle_model::name::{OperationType, Version};
use fettle_store::{StoreError, definition::DefinitionVersion, id::DefinitionVersionId};

use super::view::DefinitionView;
use crate::{
    api::{Problem, problem::ProblemDocument},
    identity::Caller,
    state::State,
};

/// Shows one version with its document.
#[utoipa::path(get, path = "/api/v1/admin/operation-definitions/{id}", tag = "operation definitions",
    params(("id" = String, Path, description = "id, or `operation_type@version`")),
    responses(
        (status = 200, description = "the version", body = DefinitionView),
        (status = 404, description = "there is none", body = ProblemDocument),
    ))]
pub(crate) async fn show(
    Extracted(state): Extracted<State>,
    _caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<DefinitionView>, Problem> {
    let found = find(&state, &name).await?;
    let version = found.ok_or_else(|| {
        Problem::not_found("definition.unknown", format!("there is no operation definition `{name}`"))
    })?;
    Ok(Json(DefinitionView::whole(&version)))
}

async fn find(state: &State, name: &str) -> Result<Option<DefinitionVersion>, StoreError> {
    if let Ok(id) = name.parse::<DefinitionVersionId>() {
        return state.store.definition(id).await;
    }
    let parts = name.split_once('@').map(|(kind, version)| (kind.parse::<OperationType>(), version.parse::<Version>()));
    match parts {
        Some((Ok(operation_type), Ok(version))) => state.store.definition_version(&operation_type, &version).await,
        _ => Ok(None),
    }
}
