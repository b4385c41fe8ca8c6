//! Projects and the organisations that own them.

use async_trait::async_trait;
use fettle_model::name::Label;

use crate::{StoreError, context::Context};

/// The organisation of a project that was created without one.
pub const DEFAULT_ORGANISATION: &str = "default";

/// What owns operations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Project {
    /// Its name.
    pub project_id: Label,
    /// The organisation it belongs to.
    pub org_id: Label,
}

/// Projects.
#[async_trait]
pub trait ProjectStore: Send + Sync {
    /// Makes sure that the project is there.
    ///
    /// # Errors
    /// `Conflict` when it belongs to another organisation.
    async fn ensure_project(&self, project: Project, context: Context) -> Result<(), StoreError>;

    /// Finds a project.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn project(&self, project_id: &Label) -> Result<Option<Project>, StoreError>;

    /// Whether there is an organisation: one that owns a project, or that a token administers.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn has_organisation(&self, org_id: &Label) -> Result<bool, StoreError>;
}
