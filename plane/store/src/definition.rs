//! Registered operation definitions.

use async_trait::async_trait;
use fettle_model::{
    catalog::Catalog,
    definition::Definition,
    name::{OperationType, Version},
    plan::Sources,
};
use jiff::Timestamp;

use crate::{StoreError, context::Context, id::DefinitionVersionId};

/// A version to be registered, fetched and checked.
#[derive(Clone, Debug)]
pub struct NewDefinitionVersion {
    /// Its id, when it is new.
    pub id: DefinitionVersionId,
    /// Where its documents are.
    pub sources: Sources,
    /// The definition.
    pub definition: Definition,
    /// The catalog.
    pub catalog: Catalog,
    /// What it begins as: a draft, or published.
    pub status: DefinitionStatus,
}

/// A registered version. Its content never changes once it is published.
#[derive(Clone, Debug, PartialEq)]
pub struct DefinitionVersion {
    /// Its id.
    pub id: DefinitionVersionId,
    /// Where its documents are.
    pub sources: Sources,
    /// The definition.
    pub definition: Definition,
    /// The catalog.
    pub catalog: Catalog,
    /// Whether it can be used.
    pub status: DefinitionStatus,
    /// When it was registered.
    pub created_at: Timestamp,
    /// By whom.
    pub created_by: String,
}

/// Where a version is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionStatus {
    /// It is being written: it can be changed, and no operation can be made of it.
    Draft,
    /// It can be used, and never changes any more.
    Published,
    /// It can still be used; people are told to move on.
    Deprecated,
    /// No new operation is made of it. Those that were accepted before run to their end.
    Retired,
}

/// What happens to a version.
#[derive(Clone, Debug)]
pub enum DefinitionChange {
    /// A draft gets another content, and is published if it says so.
    Amend(Box<NewDefinitionVersion>),
    /// It should no longer be used.
    Deprecate,
    /// It can no longer be used.
    Retire,
}

/// What registering did.
#[derive(Clone, Debug, PartialEq)]
pub enum Registered {
    /// It was not there.
    New(DefinitionVersion),
    /// It was there with the same content.
    Same(DefinitionVersion),
}

impl DefinitionStatus {
    /// The name in documents and databases.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Published => "published",
            Self::Deprecated => "deprecated",
            Self::Retired => "retired",
        }
    }

    /// The status of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Draft, Self::Published, Self::Deprecated, Self::Retired].into_iter().find(|one| one.name() == name)
    }

    /// Whether new operations can be made of it.
    #[must_use]
    pub const fn is_usable(self) -> bool {
        matches!(self, Self::Published | Self::Deprecated)
    }

    /// The status after a change; none when the change is not for a version in this one. To do again what
    /// was done changes nothing.
    #[must_use]
    pub const fn after(self, change: &DefinitionChange) -> Option<Self> {
        match (self, change) {
            (Self::Draft, DefinitionChange::Amend(new)) => Some(new.status),
            (Self::Published | Self::Deprecated, DefinitionChange::Deprecate) => Some(Self::Deprecated),
            (_, DefinitionChange::Retire) => Some(Self::Retired),
            (Self::Published | Self::Deprecated | Self::Retired, DefinitionChange::Amend(_))
            | (Self::Draft | Self::Retired, DefinitionChange::Deprecate) => None,
        }
    }
}

impl DefinitionChange {
    /// The action in the audit trail.
    #[must_use]
    pub const fn action(&self) -> &'static str {
        match self {
            Self::Amend(_) => "definition.amend",
            Self::Deprecate => "definition.deprecate",
            Self::Retire => "definition.retire",
        }
    }
}

/// Definitions.
#[async_trait]
pub trait DefinitionStore: Send + Sync {
    /// Registers a version. The digests of its three documents are its content; the places they are
    /// fetched from may move, and the latest are kept.
    ///
    /// # Errors
    /// `Conflict` when the version is there with another content.
    async fn register_definition(
        &self,
        version: NewDefinitionVersion,
        context: Context,
    ) -> Result<Registered, StoreError>;

    /// Moves a version on in its life. To do again what was done changes nothing.
    ///
    /// # Errors
    /// `NotFound` when there is none, `Conflict` when the change is not for a version of this status, or
    /// when a draft would become another version.
    async fn change_definition(
        &self,
        id: DefinitionVersionId,
        change: DefinitionChange,
        context: Context,
    ) -> Result<DefinitionVersion, StoreError>;

    /// One version by id.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn definition(&self, id: DefinitionVersionId) -> Result<Option<DefinitionVersion>, StoreError>;

    /// One version by name.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn definition_version(
        &self,
        operation_type: &OperationType,
        version: &Version,
    ) -> Result<Option<DefinitionVersion>, StoreError>;

    /// When a version was moved on by this action of the audit trail; none when the trail does not say.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn definition_moved(
        &self,
        id: DefinitionVersionId,
        action: &'static str,
    ) -> Result<Option<Timestamp>, StoreError>;

    /// All versions, by type, then by version.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn definitions(&self) -> Result<Vec<DefinitionVersion>, StoreError>;
}
