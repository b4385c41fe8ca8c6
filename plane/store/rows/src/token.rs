//! Rows of tokens.

use fettle_store::{
    StoreError,
    context::Context,
    id::TokenId,
    token::{Access, NewToken, ProjectRole, Token},
};
use sqlx_macros::FromRow;

use crate::row;

const WHAT: &str = "token";

/// A row as it is stored, without its hash.
#[derive(FromRow)]
pub struct TokenRow {
    token_id: String,
    name: String,
    role: String,
    org_id: Option<String>,
    project_id: Option<String>,
    created_at: i64,
    expires_at: Option<i64>,
    revoked_at: Option<i64>,
    used_at: Option<i64>,
    /// When the secret ends by which it was found, where that is not the newest.
    superseded_until: Option<i64>,
}

/// A role that this version does not know, or without its scope.
#[derive(Debug, thiserror::Error)]
#[error("role `{0}` is unknown or lacks its scope")]
struct BadRole(String);

impl TokenRow {
    fn access(&self) -> Result<Access, StoreError> {
        let role = match (self.role.as_str(), self.org_id.as_deref()) {
            ("platform_admin", _) => return Ok(Access::PlatformAdmin),
            ("tenant_admin", Some(org_id)) => return Ok(Access::TenantAdmin { org_id: row::parse(WHAT, org_id)? }),
            ("project_admin", _) => ProjectRole::Admin,
            ("project_member", _) => ProjectRole::Member,
            ("project_viewer", _) => ProjectRole::Viewer,
            _ => return Err(StoreError::corrupt(WHAT, BadRole(self.role.clone()))),
        };
        let project = row::project(WHAT, self.org_id.as_deref(), self.project_id.as_deref())?
            .ok_or_else(|| StoreError::corrupt(WHAT, BadRole(self.role.clone())))?;
        Ok(Access::Project { project, role })
    }

    /// The token.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn token(self) -> Result<Token, StoreError> {
        Ok(Token {
            access: self.access()?,
            id: row::parse(WHAT, &self.token_id)?,
            created_at: row::time(WHAT, self.created_at)?,
            expires_at: row::optional_time(WHAT, self.expires_at.into_iter().chain(self.superseded_until).min())?,
            revoked_at: row::optional_time(WHAT, self.revoked_at)?,
            used_at: row::optional_time(WHAT, self.used_at)?,
            name: self.name,
        })
    }
}

/// The columns of an access: organisation, project.
#[must_use]
pub fn columns(access: &Access) -> (Option<&str>, Option<&str>) {
    match access {
        Access::PlatformAdmin => (None, None),
        Access::TenantAdmin { org_id } => (Some(org_id.as_str()), None),
        Access::Project { project, .. } => (Some(project.org_id.as_str()), Some(project.project_id.as_str())),
    }
}

/// The token that was just created.
#[must_use]
pub fn created(new: &NewToken, context: &Context) -> Token {
    Token {
        id: new.id,
        name: new.name.clone(),
        access: new.access.clone(),
        created_at: context.at,
        expires_at: new.expires_at,
        revoked_at: None,
        used_at: None,
    }
}

/// The token is no longer valid, so it gets no other secret.
#[must_use]
pub fn not_valid(id: TokenId) -> StoreError {
    StoreError::conflict(
        "token.not_valid",
        format!("token `{id}` is revoked or has expired; create another one in its place"),
    )
}

/// A token that is not revoked has this name.
#[must_use]
pub fn name_taken(name: &str) -> StoreError {
    StoreError::conflict(
        "token.name_taken",
        format!("a token `{name}` exists already; revoke it or choose another name"),
    )
}
