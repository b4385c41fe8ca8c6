//! The version that a URL names.

use fettle_model::name::{OperationType, Version};
use fettle_store::{
    StoreError,
    definition::{DefinitionStatus, DefinitionVersion},
    id::DefinitionVersionId,
    token::Access,
};

use crate::{api::Problem, identity::Caller, state::State};

/// A version by id, or by `operation_type@version`.
pub(super) async fn find(state: &State, name: &str) -> Result<DefinitionVersion, Problem> {
    let found = look(state, name).await?;
    found.ok_or_else(|| unknown(name))
}

/// The same, for somebody who may not see all: a draft that others write is as unknown as what is not there.
pub(super) async fn find_visible(state: &State, caller: &Caller, name: &str) -> Result<DefinitionVersion, Problem> {
    let found = look(state, name).await?.filter(|version| sees(caller, version));
    found.ok_or_else(|| unknown(name))
}

/// Whether somebody may know of a version: drafts are those of platform administrators.
pub(super) fn sees(caller: &Caller, version: &DefinitionVersion) -> bool {
    version.status != DefinitionStatus::Draft || *caller.access() == Access::PlatformAdmin
}

fn unknown(name: &str) -> Problem {
    Problem::not_found("definition.unknown", format!("there is no operation definition `{name}`"))
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
