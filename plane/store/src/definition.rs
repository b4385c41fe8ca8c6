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
}

/// A registered version. Its content never changes.
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

/// Whether a version can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionStatus {
    /// It can.
    Active,
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
            Self::Active => "active",
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

    /// All versions, by type, then by version.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn definitions(&self) -> Result<Vec<DefinitionVersion>, StoreError>;
}
