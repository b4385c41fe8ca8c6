//! Rows of registered definitions.

use fettle_model::{
    digest::Digest,
    name::{OperationType, Version},
    plan::Sources,
};
use fettle_store::{
    StoreError,
    context::Context,
    definition::{DefinitionChange, DefinitionStatus, DefinitionVersion, NewDefinitionVersion},
};
use sqlx_macros::FromRow;

use crate::row;

/// The kind of record.
pub const WHAT: &str = "operation definition";

/// When a version was moved on: `$1` is the scope, `$2` the action, `$3` the version.
pub const MOVED: &str =
    "SELECT max(at) FROM audit_logs WHERE scope = $1 AND action = $2 AND resource_name = $3 AND result = 'ok'";

/// A row as it is stored.
#[derive(FromRow)]
pub struct DefinitionRow {
    definition_version_id: String,
    sources: String,
    definition: String,
    catalog: String,
    status: String,
    created_at: i64,
    created_by: String,
}

/// A status that this version does not know.
#[derive(Debug, thiserror::Error)]
#[error("status `{0}` is unknown")]
struct UnknownStatus(String);

impl DefinitionRow {
    /// The version.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn version(self) -> Result<DefinitionVersion, StoreError> {
        let status = DefinitionStatus::from_name(&self.status)
            .ok_or_else(|| StoreError::corrupt(WHAT, UnknownStatus(self.status)))?;
        Ok(DefinitionVersion {
            id: row::parse(WHAT, &self.definition_version_id)?,
            sources: row::document(WHAT, &self.sources)?,
            definition: row::document(WHAT, &self.definition)?,
            catalog: row::document(WHAT, &self.catalog)?,
            status,
            created_at: row::time(WHAT, self.created_at)?,
            created_by: self.created_by,
        })
    }
}

/// What a version is, wherever it is fetched from.
#[must_use]
pub fn content(sources: &Sources) -> [Digest; 3] {
    [sources.definition.digest, sources.catalog.digest, sources.policy.digest]
}

/// The number by which versions are ordered.
#[must_use]
pub fn version_number(version: &Version) -> i64 {
    version.as_str().trim_start_matches('v').parse().unwrap_or(0)
}

/// The version that was just registered.
#[must_use]
pub fn registered(new: &NewDefinitionVersion, context: &Context) -> DefinitionVersion {
    DefinitionVersion {
        id: new.id,
        sources: new.sources.clone(),
        definition: new.definition.clone(),
        catalog: new.catalog.clone(),
        status: new.status,
        created_at: context.at,
        created_by: context.actor.to_string(),
    }
}

/// The version is there with another content.
#[must_use]
pub fn exists(known: &DefinitionVersion) -> StoreError {
    StoreError::conflict(
        "definition.exists",
        format!(
            "{}@{} is registered with definition {}, catalog {} and policy {}, and a version never changes; write a \
             new version",
            known.definition.operation_type,
            known.definition.version,
            known.sources.definition.digest,
            known.sources.catalog.digest,
            known.sources.policy.digest
        ),
    )
}

/// A version after a change.
///
/// # Errors
/// `Conflict` when the change is not for a version of this status, or of this name.
pub fn changed(known: DefinitionVersion, change: &DefinitionChange) -> Result<DefinitionVersion, StoreError> {
    let name = format!("{}@{}", known.definition.operation_type, known.definition.version);
    let Some(status) = known.status.after(change) else {
        let fix = match change {
            DefinitionChange::Amend(_) => "only a draft can be amended; register a new version",
            DefinitionChange::Deprecate => "only what is published can be deprecated",
            DefinitionChange::Retire => "it cannot be retired",
        };
        return Err(StoreError::conflict("definition.status", format!("{name} is {}; {fix}", known.status.name())));
    };
    match change {
        DefinitionChange::Deprecate | DefinitionChange::Retire => Ok(DefinitionVersion { status, ..known }),
        DefinitionChange::Amend(new)
            if (&new.definition.operation_type, &new.definition.version)
                == (&known.definition.operation_type, &known.definition.version) =>
        {
            let NewDefinitionVersion { sources, definition, catalog, .. } = (**new).clone();
            Ok(DefinitionVersion { status, sources, definition, catalog, ..known })
        }
        DefinitionChange::Amend(new) => Err(StoreError::conflict(
            "definition.other",
            format!(
                "this draft is {name}, and the document says {}@{}; register that as a version of its own",
                new.definition.operation_type, new.definition.version
            ),
        )),
    }
}

/// Refuses an operation of a version with a status in which it cannot be used.
///
/// # Errors
/// `Conflict` then.
pub fn check_usable(operation_type: &OperationType, version: &Version, status: Option<&str>) -> Result<(), StoreError> {
    match status.and_then(DefinitionStatus::from_name).filter(|status| !status.is_usable()) {
        None => Ok(()),
        Some(status) => Err(StoreError::conflict(
            "definition.status",
            format!("{operation_type}@{version} is {}; choose another version", status.name()),
        )),
    }
}
