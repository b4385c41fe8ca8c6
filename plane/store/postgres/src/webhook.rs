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

use crate::{
    PostgresStore, audit,
    journal::clean,
    row,
    unit::{Asking, Unit},
};

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

/// Two at once may make one more than may be; nobody is harmed by that.
async fn create(unit: &mut Unit, new: &NewWebhook, context: &Context) -> Result<Webhook, StoreError> {
    let events = names(&new.events)?;
    let made = unit
        .execute(
            "INSERT INTO webhooks (webhook_id, org_id, project_id, url, events, state, secret, created_at, delivered_to)
             SELECT $1, $2, $3, $4, $5, $6, $7, $8, (SELECT coalesce(max(sequence), 0) FROM outbox_events)
             WHERE (SELECT count(*) FROM webhooks WHERE org_id = $2 AND project_id = $3) < $9",
            |query| {
                query
                    .bind(new.id.to_string())
                    .bind(new.scope.org_id().to_string())
                    .bind(new.scope.project_id().to_owned())
                    .bind(clean(&new.url))
                    .bind(events)
                    .bind(new.state.name())
                    .bind(new.secret.reveal().to_owned())
                    .bind(context.at.as_millisecond())
                    .bind(i64::from(MOST_WEBHOOKS))
            },
        )
        .await?;
    if made == 0 {
        return Err(too_many());
    }
    changed(unit, context, &new.scope, new.id, "webhook.create");
    find(unit, &new.scope, new.id).await
}

/// The webhook; nobody else changes it before the commit.
async fn find(unit: &mut Unit, scope: &WebhookScope, id: WebhookId) -> Result<Webhook, StoreError> {
    let sql = webhooks!("WHERE webhook_id = $1 AND org_id = $2 AND project_id = $3 FOR UPDATE");
    let bind = |query: Asking<WebhookRow>| {
        query.bind(id.to_string()).bind(scope.org_id().to_string()).bind(scope.project_id().to_owned())
    };
    unit.look_for(sql, bind).await?.ok_or_else(|| unknown(id))?.webhook()
}

/// Adds the audit row of a change, and wakes those who deliver.
fn changed(unit: &mut Unit, context: &Context, scope: &WebhookScope, id: WebhookId, action: &'static str) {
    unit.announce(Change::Webhooks);
    audit::record(unit, context, &scope.audit_scope(), action, &scope.resource_name(id));
}

async fn change(
    unit: &mut Unit,
    (scope, id, change, context): &(WebhookScope, WebhookId, WebhookChange, Context),
) -> Result<Webhook, StoreError> {
    find(unit, scope, *id).await?;
    match change {
        WebhookChange::Pause => {
            let sql = "UPDATE webhooks SET state = 'paused' WHERE webhook_id = $1";
            unit.execute(sql, |query| query.bind(id.to_string())).await?;
        }
        WebhookChange::Resume => {
            let sql =
                "UPDATE webhooks SET state = 'active', attempts = 0, next_attempt_at = NULL WHERE webhook_id = $1";
            unit.execute(sql, |query| query.bind(id.to_string())).await?;
        }
        WebhookChange::Rotate { secret, previous_until } => {
            let sql = "UPDATE webhooks SET previous_secret = secret, secret = $2, previous_until = $3
                       WHERE webhook_id = $1";
            let bind = |query: crate::unit::Telling| {
                query.bind(id.to_string()).bind(secret.reveal().to_owned()).bind(previous_until.as_millisecond())
            };
            unit.execute(sql, bind).await?;
        }
        WebhookChange::Keep { secret, form } => {
            let sql = "UPDATE webhooks SET secret = CASE secret WHEN $2 THEN $3 ELSE secret END,
                           previous_secret = CASE previous_secret WHEN $2 THEN $3 ELSE previous_secret END
                       WHERE webhook_id = $1";
            let bind = |query: crate::unit::Telling| {
                query.bind(id.to_string()).bind(secret.reveal().to_owned()).bind(form.reveal().to_owned())
            };
            unit.execute(sql, bind).await?;
        }
    }
    changed(unit, context, scope, *id, action(change));
    find(unit, scope, *id).await
}

async fn delete(unit: &mut Unit, (scope, id, context): &(WebhookScope, WebhookId, Context)) -> Result<(), StoreError> {
    find(unit, scope, *id).await?;
    for sql in ["DELETE FROM webhook_dead_letters WHERE webhook_id = $1", "DELETE FROM webhooks WHERE webhook_id = $1"]
    {
        unit.execute(sql, |query| query.bind(id.to_string())).await?;
    }
    changed(unit, context, scope, *id, "webhook.delete");
    Ok(())
}

async fn replay(
    unit: &mut Unit,
    (scope, id, sequences, context): &(WebhookScope, WebhookId, Option<Vec<i64>>, Context),
) -> Result<u64, StoreError> {
    find(unit, scope, *id).await?;
    let sql = "UPDATE webhook_dead_letters SET replay_at = $2, attempts = 0
               WHERE webhook_id = $1 AND replay_at IS NULL AND ($3::bigint[] IS NULL OR sequence = ANY($3))";
    let at = context.at.as_millisecond();
    let replayed = unit.execute(sql, |query| query.bind(id.to_string()).bind(at).bind(sequences.clone())).await?;
    changed(unit, context, scope, *id, "webhook.replay");
    Ok(replayed)
}

async fn claim(unit: &mut Unit, (claim, context): &(Claim, Context)) -> Result<Claimed, StoreError> {
    let sql = "UPDATE webhooks SET claimed_by = $1, claimed_until = $2
               WHERE state = 'active' AND (claimed_by IS NULL OR claimed_by = $1 OR claimed_until <= $3)";
    let (until, now) = (claim.until.as_millisecond(), context.at.as_millisecond());
    unit.execute(sql, |query| query.bind(claim.owner.clone()).bind(until).bind(now)).await?;
    let sql = webhooks!("WHERE state = 'active' AND claimed_by = $1");
    let held = unit.look(sql, |query: Asking<WebhookRow>| query.bind(claim.owner.clone())).await?;
    let sql = "SELECT min(claimed_until) FROM webhooks WHERE state = 'active' AND claimed_by <> $1";
    let next = unit.look_for(sql, |query: Asking<(Option<i64>,)>| query.bind(claim.owner.clone())).await?;
    let webhooks = held.into_iter().map(WebhookRow::webhook).collect::<Result<_, _>>()?;
    Ok(Claimed { webhooks, next: row::optional_time("webhook", next.and_then(|(next,)| next))? })
}

#[async_trait]
impl WebhookStore for PostgresStore {
    async fn create_webhook(&self, new: NewWebhook, context: Context) -> Result<Webhook, StoreError> {
        self.writer
            .run("create_webhook", (new, context), |unit, (new, context)| Box::pin(create(unit, new, context)))
            .await
    }

    async fn webhook(&self, scope: &WebhookScope, id: WebhookId) -> Result<Option<Webhook>, StoreError> {
        let sql = webhooks!("WHERE webhook_id = $1 AND org_id = $2 AND project_id = $3");
        let bind = |query: Asking<WebhookRow>| {
            query.bind(id.to_string()).bind(scope.org_id().to_string()).bind(scope.project_id().to_owned())
        };
        self.reader.one("webhook", sql, bind).await?.map(WebhookRow::webhook).transpose()
    }

    async fn webhooks(&self, scope: &WebhookScope) -> Result<Vec<Webhook>, StoreError> {
        let sql = webhooks!("WHERE org_id = $1 AND project_id = $2 ORDER BY webhook_id");
        let bind =
            |query: Asking<WebhookRow>| query.bind(scope.org_id().to_string()).bind(scope.project_id().to_owned());
        let rows = self.reader.all("webhooks", sql, bind).await?;
        rows.into_iter().map(WebhookRow::webhook).collect()
    }

    async fn every_webhook(&self) -> Result<Vec<Webhook>, StoreError> {
        let sql = webhooks!("ORDER BY webhook_id");
        let rows = self.reader.all("every_webhook", sql, |query: Asking<WebhookRow>| query).await?;
        rows.into_iter().map(WebhookRow::webhook).collect()
    }

    async fn change_webhook(
        &self,
        scope: WebhookScope,
        id: WebhookId,
        what: WebhookChange,
        context: Context,
    ) -> Result<Webhook, StoreError> {
        let input = (scope, id, what, context);
        self.writer.run("change_webhook", input, |unit, input| Box::pin(change(unit, input))).await
    }

    async fn delete_webhook(&self, scope: WebhookScope, id: WebhookId, context: Context) -> Result<(), StoreError> {
        self.writer.run("delete_webhook", (scope, id, context), |unit, input| Box::pin(delete(unit, input))).await
    }

    async fn dead_letters(&self, id: WebhookId, page: Page<i64>) -> Result<Vec<DeadLetter>, StoreError> {
        let sql = letters!("WHERE webhook_id = $1 AND sequence > $2 ORDER BY sequence LIMIT $3");
        let bind = |query: Asking<DeadLetterRow>| {
            query.bind(id.to_string()).bind(page.after.unwrap_or(0)).bind(i64::from(page.size))
        };
        let rows = self.reader.all("dead_letters", sql, bind).await?;
        rows.into_iter().map(DeadLetterRow::letter).collect()
    }

    async fn replay_dead_letters(
        &self,
        scope: WebhookScope,
        id: WebhookId,
        sequences: Option<Vec<i64>>,
        context: Context,
    ) -> Result<u64, StoreError> {
        let input = (scope, id, sequences, context);
        self.writer.run("replay_dead_letters", input, |unit, input| Box::pin(replay(unit, input))).await
    }

    async fn replays(&self, id: WebhookId) -> Result<Vec<DeadLetter>, StoreError> {
        let sql = letters!("WHERE webhook_id = $1 AND replay_at IS NOT NULL ORDER BY replay_at, sequence LIMIT 100");
        let rows = self.reader.all("replays", sql, |query: Asking<DeadLetterRow>| query.bind(id.to_string())).await?;
        rows.into_iter().map(DeadLetterRow::letter).collect()
    }

    async fn has_active_webhooks(&self) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM webhooks WHERE state = 'active')";
        let found: Option<(bool,)> = self.reader.one("has_active_webhooks", sql, |query| query).await?;
        Ok(found.is_some_and(|(found,)| found))
    }

    async fn claim_webhooks(&self, wanted: Claim, context: Context) -> Result<Claimed, StoreError> {
        self.writer.run("claim_webhooks", (wanted, context), |unit, input| Box::pin(claim(unit, input))).await
    }

    async fn release_webhooks(&self, owner: String) -> Result<(), StoreError> {
        let sql = "UPDATE webhooks SET claimed_by = NULL, claimed_until = NULL WHERE claimed_by = $1";
        self.writer
            .run("release_webhooks", owner, move |unit, owner| {
                Box::pin(async move {
                    unit.announce(Change::Webhooks);
                    unit.execute(sql, |query| query.bind(owner.clone())).await.map(drop)
                })
            })
            .await
    }

    async fn settle_delivery(&self, settlement: Settlement, context: Context) -> Result<bool, StoreError> {
        self.writer
            .run("settle_delivery", (settlement, context), |unit, (settlement, context)| {
                Box::pin(settle::settle(unit, settlement, context))
            })
            .await
    }

    async fn count_dead_letters(&self) -> Result<u64, StoreError> {
        let sql = "SELECT count(*) FROM webhook_dead_letters";
        let count: Option<(i64,)> = self.reader.one("count_dead_letters", sql, |query| query).await?;
        row::number("webhook", count.map_or(0, |(count,)| count))
    }
}
