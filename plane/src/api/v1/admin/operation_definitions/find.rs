//! The version that a URL names.

use fettle_model::name::{OperationType, Version};
use fettle_store::{StoreError, definition::DefinitionVersion, id::DefinitionVersionId};

use crate::{api::Problem, state::State};

/// A version by id, or by `operation_type@version`.
pub(super) async fn find(state: &State, name: &str) -> Result<DefinitionVersion, Problem> {
    let found = look(state, name).await?;
    found.ok_or_else(|| Problem::not_found("definition.unknown", format!("there is no operation definition `{name}`")))
}

async fn look(state: &State, name: &str) -> Result<Option<DefinitionVersion>, StoreError> {
    if let Ok(id) = name.parse::<DefinitionVersionId>() {
        return state.store.definition(id).await;
    }
    let parts = name.split_once('@').map(|(kind, version)| (kind.parse::<OperationType>(), version.parse::<Version>()));
    match parts {
        Some((Ok(operation_type), Ok(version))) => state.store.definition_version(&operation_type, &version).await,
        _ => Ok(None),
    }
}
