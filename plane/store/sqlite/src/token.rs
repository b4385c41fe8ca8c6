//! Bearer tokens and join tokens.

use async_trait::async_trait;
use fettle_store::{
    StoreError,
    context::Context,
    id::TokenId,
    project::Project,
    secret::SecretHash,
    token::{Access, NewJoinToken, NewToken, ProjectRole, Token, TokenStore},
};
use sqlx::FromRow;

use crate::{SqliteStore, audit, error::unavailable, project, row, writer::Unit};

const WHAT: &str = "token";

#[derive(FromRow)]
struct Row {
    token_id: String,
    name: String,
    role: String,
    org_id: Option<String>,
    project_id: Option<String>,
    created_at: i64,
    expires_at: Option<i64>,
    revoked_at: Option<i64>,
}

/// A role that this version does not know, or without its scope.
#[derive(Debug, thiserror::Error)]
#[error("role `{0}` is unknown or lacks its scope")]
struct BadRole(String);

impl Row {
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

    fn token(self) -> Result<Token, StoreError> {
        Ok(Token {
            access: self.access()?,
            id: row::parse(WHAT, &self.token_id)?,
            created_at: row::time(WHAT, self.created_at)?,
            expires_at: row::optional_time(WHAT, self.expires_at)?,
            revoked_at: row::optional_time(WHAT, self.revoked_at)?,
            name: self.name,
        })
    }
}

/// The columns of an access: organisation, project.
fn columns(access: &Access) -> (Option<&str>, Option<&str>) {
    match access {
        Access::PlatformAdmin => (None, None),
        Access::TenantAdmin { org_id } => (Some(org_id.as_str()), None),
        Access::Project { project, .. } => (Some(project.org_id.as_str()), Some(project.project_id.as_str())),
    }
}

async fn create(unit: &mut Unit, token: &NewToken, context: &Context) -> Result<Token, StoreError> {
    if let Access::Project { project, .. } = &token.access {
        project::ensure(unit, project, context).await?;
    }
    let (org_id, project_id) = columns(&token.access);
    let inserted = sqlx::query(
        "INSERT INTO tokens (token_id, name, role, org_id, project_id, secret_hash, created_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING",
    )
    .bind(token.id.to_string())
    .bind(&token.name)
    .bind(token.access.role_name())
    .bind(org_id)
    .bind(project_id)
    .bind(token.hash.hex())
    .bind(context.at.as_millisecond())
    .bind(token.expires_at.map(|end| end.as_millisecond()))
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("create_token"))?;
    if inserted.rows_affected() == 0 {
        return Err(StoreError::conflict(
            "token.name_taken",
            format!("a token `{}` exists already; revoke it or choose another name", token.name),
        ));
    }
    audit::record(unit, context, audit::PLATFORM, "token.create", &format!("tokens/{}", token.id)).await?;
    Ok(Token {
        id: token.id,
        name: token.name.clone(),
        access: token.access.clone(),
        created_at: context.at,
        expires_at: token.expires_at,
        revoked_at: None,
    })
}

async fn revoke(unit: &mut Unit, id: TokenId, context: &Context) -> Result<Token, StoreError> {
    let found: Option<Row> = sqlx::query_as(
        "UPDATE tokens SET revoked_at = coalesce(revoked_at, $2) WHERE token_id = $1
         RETURNING token_id, name, role, org_id, project_id, created_at, expires_at, revoked_at",
    )
    .bind(id.to_string())
    .bind(context.at.as_millisecond())
    .fetch_optional(&mut unit.connection)
    .await
    .map_err(unavailable("revoke_token"))?;
    let token = found.ok_or_else(|| StoreError::not_found("token", id))?.token()?;
    audit::record(unit, context, audit::PLATFORM, "token.revoke", &format!("tokens/{id}")).await?;
    Ok(token)
}

async fn create_join(unit: &mut Unit, token: &NewJoinToken, context: &Context) -> Result<(), StoreError> {
    if let Some(owner) = &token.owner {
        project::ensure(unit, owner, context).await?;
    }
    let column = |name: fn(&Project) -> &str| token.owner.as_ref().map(name);
    sqlx::query(
        "INSERT INTO join_tokens (join_token_id, secret_hash, uses_left, org_id, project_id, created_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(token.id.to_string())
    .bind(token.hash.hex())
    .bind(token.uses)
    .bind(column(|project| project.org_id.as_str()))
    .bind(column(|project| project.project_id.as_str()))
    .bind(context.at.as_millisecond())
    .bind(token.expires_at.as_millisecond())
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("create_join_token"))?;
    let scope = audit::scope(token.owner.as_ref());
    audit::record(unit, context, &scope, "join_token.create", &format!("join-tokens/{}", token.id)).await
}

#[async_trait]
impl TokenStore for SqliteStore {
    async fn create_token(&self, token: NewToken, context: Context) -> Result<Token, StoreError> {
        self.writer.run("create_token", move |unit| Box::pin(async move { create(unit, &token, &context).await })).await
    }

    async fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT token_id, name, role, org_id, project_id, created_at, expires_at, revoked_at
             FROM tokens ORDER BY token_id DESC",
        )
        .fetch_all(&self.readers)
        .await
        .map_err(unavailable("tokens"))?;
        rows.into_iter().map(Row::token).collect()
    }

    async fn revoke_token(&self, id: TokenId, context: Context) -> Result<Token, StoreError> {
        self.writer.run("revoke_token", move |unit| Box::pin(async move { revoke(unit, id, &context).await })).await
    }

    async fn token_by_hash(&self, hash: SecretHash) -> Result<Option<Token>, StoreError> {
        let found: Option<Row> = sqlx::query_as(
            "SELECT token_id, name, role, org_id, project_id, created_at, expires_at, revoked_at
             FROM tokens WHERE secret_hash = $1",
        )
        .bind(hash.hex())
        .fetch_optional(&self.readers)
        .await
        .map_err(unavailable("token_by_hash"))?;
        found.map(Row::token).transpose()
    }

    async fn create_join_token(&self, token: NewJoinToken, context: Context) -> Result<(), StoreError> {
        self.writer
            .run("create_join_token", move |unit| Box::pin(async move { create_join(unit, &token, &context).await }))
            .await
    }
}
