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
use fettle_store_rows::token::{TokenRow, columns, created, name_taken};

use crate::{
    PostgresStore, audit,
    journal::clean,
    project,
    unit::{Asking, Unit},
};

macro_rules! tokens {
    ($rest:literal) => {
        concat!(
            "SELECT token_id, name, role, org_id, project_id, created_at, expires_at, revoked_at FROM tokens ",
            $rest
        )
    };
}

async fn create(unit: &mut Unit, token: &NewToken, context: &Context) -> Result<Token, StoreError> {
    if let Access::Project { project, .. } = &token.access {
        project::ensure(unit, project, context).await?;
    }
    let (org_id, project_id) = columns(&token.access);
    let inserted = unit
        .execute(
            "INSERT INTO tokens (token_id, name, role, org_id, project_id, secret_hash, created_at, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING",
            |query| {
                query
                    .bind(token.id.to_string())
                    .bind(clean(&token.name))
                    .bind(token.access.role_name())
                    .bind(org_id.map(str::to_owned))
                    .bind(project_id.map(str::to_owned))
                    .bind(token.hash.hex())
                    .bind(context.at.as_millisecond())
                    .bind(token.expires_at.map(|end| end.as_millisecond()))
            },
        )
        .await?;
    if inserted == 0 {
        return Err(name_taken(&token.name));
    }
    audit::record(unit, context, audit::PLATFORM, "token.create", &format!("tokens/{}", token.id));
    Ok(created(token, context))
}

async fn revoke(unit: &mut Unit, id: TokenId, context: &Context) -> Result<Token, StoreError> {
    let found = unit
        .change_one(
            "UPDATE tokens SET revoked_at = coalesce(revoked_at, $2) WHERE token_id = $1
             RETURNING token_id, name, role, org_id, project_id, created_at, expires_at, revoked_at",
            |query: Asking<TokenRow>| query.bind(id.to_string()).bind(context.at.as_millisecond()),
        )
        .await?;
    let token = found.ok_or_else(|| StoreError::not_found("token", id))?.token()?;
    audit::record(unit, context, audit::PLATFORM, "token.revoke", &format!("tokens/{id}"));
    Ok(token)
}

async fn create_join(unit: &mut Unit, token: &NewJoinToken, context: &Context) -> Result<(), StoreError> {
    if let Some(owner) = &token.owner {
        project::ensure(unit, owner, context).await?;
    }
    let column = |name: fn(&Project) -> String| token.owner.as_ref().map(name);
    let labels = crate::row::text("join token", &token.labels)?;
    unit.execute(
        "INSERT INTO join_tokens (join_token_id, secret_hash, uses_left, org_id, project_id, created_at, expires_at,
             labels)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        |query| {
            query
                .bind(token.id.to_string())
                .bind(token.hash.hex())
                .bind(i64::from(token.uses))
                .bind(column(|project| project.org_id.to_string()))
                .bind(column(|project| project.project_id.to_string()))
                .bind(context.at.as_millisecond())
                .bind(token.expires_at.as_millisecond())
                .bind(labels)
        },
    )
    .await?;
    let scope = audit::scope(token.owner.as_ref());
    audit::record(unit, context, &scope, "join_token.create", &format!("join-tokens/{}", token.id));
    Ok(())
}

#[async_trait]
impl TokenStore for PostgresStore {
    async fn create_token(&self, token: NewToken, context: Context) -> Result<Token, StoreError> {
        self.writer
            .run("create_token", (token, context), |unit, (token, context)| Box::pin(create(unit, token, context)))
            .await
    }

    async fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        let rows: Vec<TokenRow> = self.reader.all("tokens", tokens!("ORDER BY token_id DESC"), |query| query).await?;
        rows.into_iter().map(TokenRow::token).collect()
    }

    async fn revoke_token(&self, id: TokenId, context: Context) -> Result<Token, StoreError> {
        self.writer.run("revoke_token", (id, context), |unit, (id, context)| Box::pin(revoke(unit, *id, context))).await
    }

    async fn token_by_hash(&self, hash: SecretHash) -> Result<Option<Token>, StoreError> {
        let bind = |query: Asking<TokenRow>| query.bind(hash.hex());
        let found = self.reader.one("token_by_hash", tokens!("WHERE secret_hash = $1"), bind).await?;
        found.map(TokenRow::token).transpose()
    }

    async fn create_join_token(&self, token: NewJoinToken, context: Context) -> Result<(), StoreError> {
        self.writer
            .run("create_join_token", (token, context), |unit, (token, context)| {
                Box::pin(create_join(unit, token, context))
            })
            .await
    }
}
