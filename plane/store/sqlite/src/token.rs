//! Bearer tokens and join tokens.

use async_trait::async_trait;
use fettle_store::{
    StoreError,
    context::Context,
    id::TokenId,
    project::Project,
    secret::SecretHash,
    token::{Access, NewJoinToken, NewToken, Token, TokenStore},
};
use fettle_store_rows::token::{TokenRow, columns, created, name_taken, not_valid};
use jiff::Timestamp;

use crate::{SqliteStore, audit, error::unavailable, project, row, writer::Unit};

/// The columns of a token, found by its newest secret or in no way at all.
macro_rules! tokens {
    ($rest:literal) => {
        tokens!("NULL", $rest)
    };
    ($superseded:literal, $rest:literal) => {
        concat!(
            "SELECT token_id, name, role, org_id, project_id, created_at, expires_at, revoked_at, used_at, ",
            $superseded,
            " AS superseded_until FROM tokens ",
            $rest
        )
    };
}

async fn find(unit: &mut Unit, id: TokenId) -> Result<Token, StoreError> {
    let found: Option<TokenRow> = sqlx::query_as(tokens!("WHERE token_id = $1"))
        .bind(id.to_string())
        .fetch_optional(&mut unit.connection)
        .await
        .map_err(unavailable("token"))?;
    found.ok_or_else(|| StoreError::not_found("token", id))?.token()
}

async fn rotate(
    unit: &mut Unit,
    id: TokenId,
    hash: SecretHash,
    overlap_until: Timestamp,
    context: &Context,
) -> Result<Token, StoreError> {
    let token = find(unit, id).await?;
    if !token.is_valid_at(context.at) {
        return Err(not_valid(id));
    }
    sqlx::query(
        "UPDATE tokens SET previous_hash = secret_hash, previous_until = $3, secret_hash = $2 WHERE token_id = $1",
    )
    .bind(id.to_string())
    .bind(hash.hex())
    .bind(overlap_until.as_millisecond())
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("rotate_token"))?;
    audit::record(unit, context, audit::PLATFORM, "token.rotate", &format!("tokens/{id}"));
    Ok(token)
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
        return Err(name_taken(&token.name));
    }
    audit::record(unit, context, audit::PLATFORM, "token.create", &format!("tokens/{}", token.id));
    Ok(created(token, context))
}

async fn revoke(unit: &mut Unit, id: TokenId, context: &Context) -> Result<Token, StoreError> {
    sqlx::query("UPDATE tokens SET revoked_at = coalesce(revoked_at, $2) WHERE token_id = $1")
        .bind(id.to_string())
        .bind(context.at.as_millisecond())
        .execute(&mut unit.connection)
        .await
        .map_err(unavailable("revoke_token"))?;
    let token = find(unit, id).await?;
    audit::record(unit, context, audit::PLATFORM, "token.revoke", &format!("tokens/{id}"));
    Ok(token)
}

async fn create_join(unit: &mut Unit, token: &NewJoinToken, context: &Context) -> Result<(), StoreError> {
    if let Some(owner) = &token.owner {
        project::ensure(unit, owner, context).await?;
    }
    let column = |name: fn(&Project) -> &str| token.owner.as_ref().map(name);
    sqlx::query(
        "INSERT INTO join_tokens (join_token_id, secret_hash, uses_left, org_id, project_id, created_at, expires_at,
             labels)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(token.id.to_string())
    .bind(token.hash.hex())
    .bind(token.uses)
    .bind(column(|project| project.org_id.as_str()))
    .bind(column(|project| project.project_id.as_str()))
    .bind(context.at.as_millisecond())
    .bind(token.expires_at.as_millisecond())
    .bind(row::text("join token", &token.labels)?)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("create_join_token"))?;
    let scope = audit::scope(token.owner.as_ref());
    audit::record(unit, context, &scope, "join_token.create", &format!("join-tokens/{}", token.id));
    Ok(())
}

#[async_trait]
impl TokenStore for SqliteStore {
    async fn create_token(&self, token: NewToken, context: Context) -> Result<Token, StoreError> {
        self.writer.run("create_token", move |unit| Box::pin(async move { create(unit, &token, &context).await })).await
    }

    async fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        let rows: Vec<TokenRow> = sqlx::query_as(tokens!("ORDER BY token_id DESC"))
            .fetch_all(&mut *self.readers.take("tokens").await?)
            .await
            .map_err(unavailable("tokens"))?;
        rows.into_iter().map(TokenRow::token).collect()
    }

    async fn revoke_token(&self, id: TokenId, context: Context) -> Result<Token, StoreError> {
        self.writer.run("revoke_token", move |unit| Box::pin(async move { revoke(unit, id, &context).await })).await
    }

    async fn rotate_token(
        &self,
        id: TokenId,
        hash: SecretHash,
        overlap_until: Timestamp,
        context: Context,
    ) -> Result<Token, StoreError> {
        self.writer
            .run("rotate_token", move |unit| {
                Box::pin(async move { rotate(unit, id, hash, overlap_until, &context).await })
            })
            .await
    }

    async fn record_token_use(&self, id: TokenId, context: Context) -> Result<(), StoreError> {
        self.writer
            .run("record_token_use", move |unit| {
                Box::pin(async move {
                    sqlx::query("UPDATE tokens SET used_at = max(coalesce(used_at, 0), $2) WHERE token_id = $1")
                        .bind(id.to_string())
                        .bind(context.at.as_millisecond())
                        .execute(&mut unit.connection)
                        .await
                        .map(drop)
                        .map_err(unavailable("record_token_use"))
                })
            })
            .await
    }

    async fn token_by_hash(&self, hash: SecretHash) -> Result<Option<Token>, StoreError> {
        let found: Option<TokenRow> = sqlx::query_as(tokens!(
            "CASE WHEN secret_hash = $1 THEN NULL ELSE previous_until END",
            "WHERE secret_hash = $1 OR previous_hash = $1"
        ))
        .bind(hash.hex())
        .fetch_optional(&mut *self.readers.take("token_by_hash").await?)
        .await
        .map_err(unavailable("token_by_hash"))?;
        found.map(TokenRow::token).transpose()
    }

    async fn create_join_token(&self, token: NewJoinToken, context: Context) -> Result<(), StoreError> {
        self.writer
            .run("create_join_token", move |unit| Box::pin(async move { create_join(unit, &token, &context).await }))
            .await
    }
}
