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

use crate::{
    PostgresStore, audit,
    journal::clean,
    project,
    unit::{Asking, Unit},
};

/// The columns of a token, found by its newest secret or in no way at all.
macro_rules! tokens {
    ($rest:literal) => {
        tokens!("NULL::bigint", $rest)
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

async fn rotate(
    unit: &mut Unit,
    (id, hash, overlap_until): (TokenId, SecretHash, Timestamp),
    context: &Context,
) -> Result<Token, StoreError> {
    let sql = tokens!("WHERE token_id = $1 FOR UPDATE");
    let found = unit.look_for(sql, |query: Asking<TokenRow>| query.bind(id.to_string())).await?;
    let token = found.ok_or_else(|| StoreError::not_found("token", id))?.token()?;
    if !token.is_valid_at(context.at) {
        return Err(not_valid(id));
    }
    unit.execute(
        "UPDATE tokens SET previous_hash = secret_hash, previous_until = $3, secret_hash = $2 WHERE token_id = $1",
        |query| query.bind(id.to_string()).bind(hash.hex()).bind(overlap_until.as_millisecond()),
    )
    .await?;
    audit::record(unit, context, audit::PLATFORM, "token.rotate", &format!("tokens/{id}"));
    Ok(token)
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
             RETURNING token_id, name, role, org_id, project_id, created_at, expires_at, revoked_at, used_at,
                 NULL::bigint AS superseded_until",
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

    async fn rotate_token(
        &self,
        id: TokenId,
        hash: SecretHash,
        overlap_until: Timestamp,
        context: Context,
    ) -> Result<Token, StoreError> {
        self.writer
            .run("rotate_token", ((id, hash, overlap_until), context), |unit, (asked, context)| {
                Box::pin(rotate(unit, *asked, context))
            })
            .await
    }

    async fn record_token_use(&self, id: TokenId, context: Context) -> Result<(), StoreError> {
        self.writer
            .run("record_token_use", (id, context), |unit, (id, context)| {
                Box::pin(async move {
                    unit.execute(
                        "UPDATE tokens SET used_at = greatest(coalesce(used_at, 0), $2) WHERE token_id = $1",
                        |query| query.bind(id.to_string()).bind(context.at.as_millisecond()),
                    )
                    .await
                    .map(drop)
                })
            })
            .await
    }

    async fn token_by_hash(&self, hash: SecretHash) -> Result<Option<Token>, StoreError> {
        let bind = |query: Asking<TokenRow>| query.bind(hash.hex());
        let sql = tokens!(
            "CASE WHEN secret_hash = $1 THEN NULL ELSE previous_until END",
            "WHERE secret_hash = $1 OR previous_hash = $1"
        );
        let found = self.reader.one("token_by_hash", sql, bind).await?;
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
