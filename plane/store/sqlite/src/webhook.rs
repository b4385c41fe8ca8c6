//! Webhooks.

mod settle;

use async_trait::async_trait;
use fettle_store::{
    StoreError,
    change::Change,
    context::Context,
    id::WebhookId,
    page::Page,
    webhook::{
        Claim, Claimed, DeadLetter, MOST_WEBHOOKS, NewWebhook, Settlement, Webhook, WebhookChange, WebhookScope,
        WebhookStore,
    },
};
use fettle_store_rows::webhook::{DeadLetterRow, WebhookRow, action, names, too_many, unknown};

use crate::{SqliteStore, audit, error::unavailable, row, writer::Unit};

macro_rules! webhooks {
    ($rest:literal) => {
        concat!(
            "SELECT webhook_id, org_id, project_id, url, events, state, secret, previous_secret, previous_until,
                 delivered_to, attempts, next_attempt_at, last_answer, last_at, created_at,
                 (SELECT count(*) FROM webhook_dead_letters WHERE webhook_dead_letters.webhook_id = webhooks.webhook_id)
                     AS dead_letters
             FROM webhooks ",
            $rest
        )
    };
}

macro_rules! letters {
    ($rest:literal) => {
        concat!(
            "SELECT sequence, operation_id, kind, at, payload, attempts, last_answer, failed_at, replay_at
             FROM webhook_dead_letters ",
            $rest
        )
    };
}

async fn create(unit: &mut Unit, new: &NewWebhook, context: &Context) -> Result<Webhook, StoreError> {
    let made = sqlx::query(
        "INSERT INTO webhooks (webhook_id, org_id, project_id, url, events, state, secret, created_at, delivered_to)
         SELECT $1, $2, $3, $4, $5, $6, $7, $8, (SELECT coalesce(max(sequence), 0) FROM outbox_events)
         WHERE (SELECT count(*) FROM webhooks WHERE org_id = $2 AND project_id = $3) < $9",
    )
    .bind(new.id.to_string())
    .bind(new.scope.org_id().as_str())
    .bind(new.scope.project_id())
    .bind(&new.url)
    .bind(names(&new.events)?)
    .bind(new.state.name())
    .bind(new.secret.reveal())
    .bind(context.at.as_millisecond())
    .bind(MOST_WEBHOOKS)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("create_webhook"))?;
    if made.rows_affected() == 0 {
        return Err(too_many());
    }
    changed(unit, context, &new.scope, new.id, "webhook.create").await?;
    find(unit, &new.scope, new.id).await
}

async fn find(unit: &mut Unit, scope: &WebhookScope, id: WebhookId) -> Result<Webhook, StoreError> {
    let found: Option<WebhookRow> =
        sqlx::query_as(webhooks!("WHERE webhook_id = $1 AND org_id = $2 AND project_id = $3"))
            .bind(id.to_string())
            .bind(scope.org_id().as_str())
            .bind(scope.project_id())
            .fetch_optional(&mut unit.connection)
            .await
            .map_err(unavailable("webhook"))?;
    found.ok_or_else(|| unknown(id))?.webhook()
}

/// Writes the audit row of a change, and wakes those who deliver.
async fn changed(
    unit: &mut Unit,
    context: &Context,
    scope: &WebhookScope,
    id: WebhookId,
    action: &'static str,
) -> Result<(), StoreError> {
    unit.announce(Change::Webhooks);
    audit::record(unit, context, &scope.audit_scope(), action, &scope.resource_name(id));
    Ok(())
}

async fn change(
    unit: &mut Unit,
    scope: &WebhookScope,
    id: WebhookId,
    change: &WebhookChange,
    context: &Context,
) -> Result<Webhook, StoreError> {
    find(unit, scope, id).await?;
    let query = match change {
        WebhookChange::Pause => {
            sqlx::query("UPDATE webhooks SET state = 'paused' WHERE webhook_id = $1").bind(id.to_string())
        }
        WebhookChange::Resume => sqlx::query(
            "UPDATE webhooks SET state = 'active', attempts = 0, next_attempt_at = NULL WHERE webhook_id = $1",
        )
        .bind(id.to_string()),
        WebhookChange::Rotate { secret, previous_until } => sqlx::query(
            "UPDATE webhooks SET previous_secret = secret, secret = $2, previous_until = $3 WHERE webhook_id = $1",
        )
        .bind(id.to_string())
        .bind(secret.reveal())
        .bind(previous_until.as_millisecond()),
        WebhookChange::Keep { secret, form } => sqlx::query(
            "UPDATE webhooks SET secret = CASE secret WHEN $2 THEN $3 ELSE secret END,
                 previous_secret = CASE previous_secret WHEN $2 THEN $3 ELSE previous_secret END
             WHERE webhook_id = $1",
        )
        .bind(id.to_string())
        .bind(secret.reveal())
        .bind(form.reveal()),
    };
    query.execute(&mut unit.connection).await.map_err(unavailable("change_webhook"))?;
    changed(unit, context, scope, id, action(change)).await?;
    find(unit, scope, id).await
}

async fn delete(unit: &mut Unit, scope: &WebhookScope, id: WebhookId, context: &Context) -> Result<(), StoreError> {
    find(unit, scope, id).await?;
    for sql in ["DELETE FROM webhook_dead_letters WHERE webhook_id = $1", "DELETE FROM webhooks WHERE webhook_id = $1"]
    {
        sqlx::query(sql)
            .bind(id.to_string())
            .execute(&mut unit.connection)
            .await
            .map_err(unavailable("delete_webhook"))?;
    }
    changed(unit, context, scope, id, "webhook.delete").await
}

async fn replay(
    unit: &mut Unit,
    scope: &WebhookScope,
    id: WebhookId,
    sequences: Option<&[i64]>,
    context: &Context,
) -> Result<u64, StoreError> {
    find(unit, scope, id).await?;
    let sequences = sequences.map(|some| row::text("webhook", &some)).transpose()?;
    let replayed = sqlx::query(
        "UPDATE webhook_dead_letters SET replay_at = $2, attempts = 0
         WHERE webhook_id = $1 AND replay_at IS NULL
             AND ($3 IS NULL OR sequence IN (SELECT value FROM json_each($3)))",
    )
    .bind(id.to_string())
    .bind(context.at.as_millisecond())
    .bind(sequences)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("replay_dead_letters"))?;
    changed(unit, context, scope, id, "webhook.replay").await?;
    Ok(replayed.rows_affected())
}

async fn claim(unit: &mut Unit, claim: &Claim, context: &Context) -> Result<Claimed, StoreError> {
    const VERB: &str = "claim_webhooks";
    let now = context.at.as_millisecond();
    sqlx::query(
        "UPDATE webhooks SET claimed_by = $1, claimed_until = $2
         WHERE state = 'active' AND (claimed_by IS NULL OR claimed_by = $1 OR claimed_until <= $3)",
    )
    .bind(&claim.owner)
    .bind(claim.until.as_millisecond())
    .bind(now)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    let held: Vec<WebhookRow> = sqlx::query_as(webhooks!("WHERE state = 'active' AND claimed_by = $1"))
        .bind(&claim.owner)
        .fetch_all(&mut unit.connection)
        .await
        .map_err(unavailable(VERB))?;
    let next: Option<i64> =
        sqlx::query_scalar("SELECT min(claimed_until) FROM webhooks WHERE state = 'active' AND claimed_by <> $1")
            .bind(&claim.owner)
            .fetch_one(&mut unit.connection)
            .await
            .map_err(unavailable(VERB))?;
    let webhooks = held.into_iter().map(WebhookRow::webhook).collect::<Result<_, _>>()?;
    Ok(Claimed { webhooks, next: row::optional_time("webhook", next)? })
}

#[async_trait]
impl WebhookStore for SqliteStore {
    async fn create_webhook(&self, new: NewWebhook, context: Context) -> Result<Webhook, StoreError> {
        self.writer.run("create_webhook", move |unit| Box::pin(async move { create(unit, &new, &context).await })).await
    }

    async fn webhook(&self, scope: &WebhookScope, id: WebhookId) -> Result<Option<Webhook>, StoreError> {
        let found: Option<WebhookRow> =
            sqlx::query_as(webhooks!("WHERE webhook_id = $1 AND org_id = $2 AND project_id = $3"))
                .bind(id.to_string())
                .bind(scope.org_id().as_str())
                .bind(scope.project_id())
                .fetch_optional(&mut *self.readers.take("webhook").await?)
                .await
                .map_err(unavailable("webhook"))?;
        found.map(WebhookRow::webhook).transpose()
    }

    async fn webhooks(&self, scope: &WebhookScope) -> Result<Vec<Webhook>, StoreError> {
        let rows: Vec<WebhookRow> =
            sqlx::query_as(webhooks!("WHERE org_id = $1 AND project_id = $2 ORDER BY webhook_id"))
                .bind(scope.org_id().as_str())
                .bind(scope.project_id())
                .fetch_all(&mut *self.readers.take("webhooks").await?)
                .await
                .map_err(unavailable("webhooks"))?;
        rows.into_iter().map(WebhookRow::webhook).collect()
    }

    async fn every_webhook(&self) -> Result<Vec<Webhook>, StoreError> {
        let rows: Vec<WebhookRow> = sqlx::query_as(webhooks!("ORDER BY webhook_id"))
            .fetch_all(&mut *self.readers.take("every_webhook").await?)
            .await
            .map_err(unavailable("every_webhook"))?;
        rows.into_iter().map(WebhookRow::webhook).collect()
    }

    async fn change_webhook(
        &self,
        scope: WebhookScope,
        id: WebhookId,
        what: WebhookChange,
        context: Context,
    ) -> Result<Webhook, StoreError> {
        self.writer
            .run("change_webhook", move |unit| Box::pin(async move { change(unit, &scope, id, &what, &context).await }))
            .await
    }

    async fn delete_webhook(&self, scope: WebhookScope, id: WebhookId, context: Context) -> Result<(), StoreError> {
        self.writer
            .run("delete_webhook", move |unit| Box::pin(async move { delete(unit, &scope, id, &context).await }))
            .await
    }

    async fn dead_letters(&self, id: WebhookId, page: Page<i64>) -> Result<Vec<DeadLetter>, StoreError> {
        let rows: Vec<DeadLetterRow> =
            sqlx::query_as(letters!("WHERE webhook_id = $1 AND sequence > $2 ORDER BY sequence LIMIT $3"))
                .bind(id.to_string())
                .bind(page.after.unwrap_or(0))
                .bind(page.size)
                .fetch_all(&mut *self.readers.take("dead_letters").await?)
                .await
                .map_err(unavailable("dead_letters"))?;
        rows.into_iter().map(DeadLetterRow::letter).collect()
    }

    async fn replay_dead_letters(
        &self,
        scope: WebhookScope,
        id: WebhookId,
        sequences: Option<Vec<i64>>,
        context: Context,
    ) -> Result<u64, StoreError> {
        self.writer
            .run("replay_dead_letters", move |unit| {
                Box::pin(async move { replay(unit, &scope, id, sequences.as_deref(), &context).await })
            })
            .await
    }

    async fn replays(&self, id: WebhookId) -> Result<Vec<DeadLetter>, StoreError> {
        let rows: Vec<DeadLetterRow> = sqlx::query_as(letters!(
            "WHERE webhook_id = $1 AND replay_at IS NOT NULL ORDER BY replay_at, sequence LIMIT 100"
        ))
        .bind(id.to_string())
        .fetch_all(&mut *self.readers.take("replays").await?)
        .await
        .map_err(unavailable("replays"))?;
        rows.into_iter().map(DeadLetterRow::letter).collect()
    }

    async fn has_active_webhooks(&self) -> Result<bool, StoreError> {
        sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM webhooks WHERE state = 'active')")
            .fetch_one(&mut *self.readers.take("has_active_webhooks").await?)
            .await
            .map_err(unavailable("has_active_webhooks"))
    }

    async fn claim_webhooks(&self, wanted: Claim, context: Context) -> Result<Claimed, StoreError> {
        self.writer
            .run("claim_webhooks", move |unit| Box::pin(async move { claim(unit, &wanted, &context).await }))
            .await
    }

    async fn release_webhooks(&self, owner: String) -> Result<(), StoreError> {
        self.writer
            .run("release_webhooks", move |unit| {
                Box::pin(async move {
                    unit.announce(Change::Webhooks);
                    sqlx::query("UPDATE webhooks SET claimed_by = NULL, claimed_until = NULL WHERE claimed_by = $1")
                        .bind(owner)
                        .execute(&mut unit.connection)
                        .await
                        .map_err(unavailable("release_webhooks"))?;
                    Ok(())
                })
            })
            .await
    }

    async fn settle_delivery(&self, settlement: Settlement, context: Context) -> Result<bool, StoreError> {
        self.writer
            .run("settle_delivery", move |unit| {
                Box::pin(async move { settle::settle(unit, &settlement, &context).await })
            })
            .await
    }

    async fn count_dead_letters(&self) -> Result<u64, StoreError> {
        let count: i64 = sqlx::query_scalar("SELECT count(*) FROM webhook_dead_letters")
            .fetch_one(&mut *self.readers.take("count_dead_letters").await?)
            .await
            .map_err(unavailable("count_dead_letters"))?;
        row::number("webhook", count)
    }
}
