//! Bearer tokens of people and programs, and join tokens of nodes.

use std::collections::BTreeMap;

use async_trait::async_trait;
use fettle_model::name::Label;
use jiff::Timestamp;

use crate::{
    StoreError,
    context::Context,
    id::{JoinTokenId, TokenId},
    project::Project,
    secret::SecretHash,
};

/// What the holder of a token may reach (seed 001, 8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everything, and the definitions.
    PlatformAdmin,
    /// All projects of one organisation.
    TenantAdmin {
        /// The organisation.
        org_id: Label,
    },
    /// One project.
    Project {
        /// The project.
        project: Project,
        /// What there.
        role: ProjectRole,
    },
}

/// What may be done in a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProjectRole {
    /// Look.
    Viewer,
    /// Look, submit, cancel.
    Member,
    /// All of it.
    Admin,
}

/// A token to be created.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// Its id.
    pub id: TokenId,
    /// What it is for; unique among the tokens that are not revoked.
    pub name: String,
    /// What it opens.
    pub access: Access,
    /// The hash of the secret.
    pub hash: SecretHash,
    /// When it stops to work; none is never.
    pub expires_at: Option<Timestamp>,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its id.
    pub id: TokenId,
    /// What it is for.
    pub name: String,
    /// What it opens.
    pub access: Access,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it stops to work; none is never.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// When it was used last, give or take a minute.
    pub used_at: Option<Timestamp>,
}

/// A join token to be created.
#[derive(Clone, Debug)]
pub struct NewJoinToken {
    /// Its id.
    pub id: JoinTokenId,
    /// The hash of the secret.
    pub hash: SecretHash,
    /// How many nodes may join with it.
    pub uses: u32,
    /// The project that will own the nodes; none makes them common to all projects.
    pub owner: Option<Project>,
    /// Labels of the nodes that join with it, which their hosts cannot change.
    pub labels: BTreeMap<String, String>,
    /// When it stops to work.
    pub expires_at: Timestamp,
}

impl Access {
    /// The role's name in documents and databases.
    #[must_use]
    pub const fn role_name(&self) -> &'static str {
        match self {
            Self::PlatformAdmin => "platform_admin",
            Self::TenantAdmin { .. } => "tenant_admin",
            Self::Project { role: ProjectRole::Admin, .. } => "project_admin",
            Self::Project { role: ProjectRole::Member, .. } => "project_member",
            Self::Project { role: ProjectRole::Viewer, .. } => "project_viewer",
        }
    }

    /// What may be done in a project; none when it may not even be known.
    #[must_use]
    pub fn role_in(&self, project: &Project) -> Option<ProjectRole> {
        match self {
            Self::PlatformAdmin => Some(ProjectRole::Admin),
            Self::TenantAdmin { org_id } => (*org_id == project.org_id).then_some(ProjectRole::Admin),
            Self::Project { project: own, role } => (own == project).then_some(*role),
        }
    }
}

impl Token {
    /// Whether it opens anything at this moment.
    #[must_use]
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}

/// Tokens.
#[async_trait]
pub trait TokenStore: Send + Sync {
    /// Creates a bearer token.
    ///
    /// # Errors
    /// `Conflict` when a token that is not revoked has this name.
    async fn create_token(&self, token: NewToken, context: Context) -> Result<Token, StoreError>;

    /// All tokens, the newest first.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn tokens(&self) -> Result<Vec<Token>, StoreError>;

    /// Makes a token useless, for good. Revoking it again changes nothing.
    ///
    /// # Errors
    /// `NotFound`.
    async fn revoke_token(&self, id: TokenId, context: Context) -> Result<Token, StoreError>;

    /// Gives a token another secret. The one that it has stays good until `overlap_until`; one from before that counts no
    /// more.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when the token is not valid any more.
    async fn rotate_token(
        &self,
        id: TokenId,
        hash: SecretHash,
        overlap_until: Timestamp,
        context: Context,
    ) -> Result<Token, StoreError>;

    /// Notes that a token was used at `context.at`.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn record_token_use(&self, id: TokenId, context: Context) -> Result<(), StoreError>;

    /// The token with this secret, valid or not. With the secret that it had before it was rotated, it ends when that
    /// secret does.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn token_by_hash(&self, hash: SecretHash) -> Result<Option<Token>, StoreError>;

    /// Creates a join token.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn create_join_token(&self, token: NewJoinToken, context: Context) -> Result<(), StoreError>;
}
