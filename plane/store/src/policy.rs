//! Overlays of operation types (seed 001, 10.2 and 11), and the record of what they decided.

use std::fmt;

use async_trait::async_trait;
use fettle_model::{
    digest::Digest,
    name::{Label, OperationType},
    overlay::{Level, Overlay},
};
use jiff::Timestamp;
use serde_json::Value;

use crate::{StoreError, context::Context, id::OperationId, page::Page, project::Project};

/// Whose overlay it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PolicyScope {
    /// The platform's.
    Global,
    /// An organisation's.
    Tenant(Label),
    /// A project's.
    Project(Project),
}

/// An overlay as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyDocument {
    /// Whose it is.
    pub scope: PolicyScope,
    /// The operation type it is about.
    pub operation_type: OperationType,
    /// 1 for the first; grows with each change.
    pub revision: u64,
    /// Digest of its canonical JSON.
    pub digest: Digest,
    /// What it says.
    pub overlay: Overlay,
    /// When it was written.
    pub updated_at: Timestamp,
    /// By whom.
    pub updated_by: String,
}

/// What must be true of the stored overlay for a change to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// There is none.
    Absent,
    /// There is one, whatever it says.
    Present,
    /// It is one of these, by [`PolicyDocument::tag`].
    OneOf(Vec<String>),
}

/// The code of the conflict when a precondition does not hold.
pub const CHANGED: &str = "policy.changed";

impl PolicyScope {
    /// Its place in the chain.
    #[must_use]
    pub const fn level(&self) -> Level {
        match self {
            Self::Global => Level::Global,
            Self::Tenant(_) => Level::Tenant,
            Self::Project(_) => Level::Project,
        }
    }
}

impl fmt::Display for PolicyScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global => f.write_str("platform"),
            Self::Tenant(org_id) => write!(f, "{org_id}"),
            Self::Project(project) => write!(f, "{}/{}", project.org_id, project.project_id),
        }
    }
}

impl PolicyDocument {
    /// Names this state of the overlay: its revision, and the beginning of its digest, so that one that was
    /// deleted and written anew is another one unless it says the same.
    #[must_use]
    pub fn tag(&self) -> String {
        let digest: String = self.digest.hex().chars().take(16).collect();
        format!("{}-{digest}", self.revision)
    }
}

impl Precondition {
    /// Whether it holds.
    #[must_use]
    pub fn holds(&self, stored: Option<&PolicyDocument>) -> bool {
        match (self, stored) {
            (Self::Absent, stored) => stored.is_none(),
            (Self::Present, stored) => stored.is_some(),
            (Self::OneOf(tags), Some(stored)) => tags.contains(&stored.tag()),
            (Self::OneOf(_), None) => false,
        }
    }
}

/// Overlays and decisions.
#[async_trait]
pub trait PolicyStore: Send + Sync {
    /// Writes an overlay.
    ///
    /// # Errors
    /// `Conflict` with [`CHANGED`] when the precondition does not hold.
    async fn put_policy(
        &self,
        scope: PolicyScope,
        operation_type: OperationType,
        overlay: Overlay,
        precondition: Precondition,
        context: Context,
    ) -> Result<PolicyDocument, StoreError>;

    /// Removes an overlay: its scope says nothing of the type any more.
    ///
    /// # Errors
    /// `Conflict` with [`CHANGED`] when the precondition does not hold.
    async fn delete_policy(
        &self,
        scope: PolicyScope,
        operation_type: OperationType,
        precondition: Precondition,
        context: Context,
    ) -> Result<(), StoreError>;

    /// One overlay.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn policy(
        &self,
        scope: &PolicyScope,
        operation_type: &OperationType,
    ) -> Result<Option<PolicyDocument>, StoreError>;

    /// The overlays of a scope, by operation type.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn policies(&self, scope: &PolicyScope, page: Page<OperationType>)
    -> Result<Vec<PolicyDocument>, StoreError>;

    /// The overlays that hold in a project, the most general first, as they were at one moment.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn policy_chain(
        &self,
        project: &Project,
        operation_type: &OperationType,
    ) -> Result<Vec<PolicyDocument>, StoreError>;

    /// What was decided when an operation of a project was submitted.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn decision(&self, project: &Label, id: OperationId) -> Result<Option<Value>, StoreError>;
}
