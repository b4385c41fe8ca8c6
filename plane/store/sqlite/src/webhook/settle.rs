//! What came of an attempt.

use fettle_store::{
    StoreError,
    context::Context,
    webhook::{Fate, Settlement, Turn},
};

use crate::{error::unavailable, row, writer::Unit};

const VERB: &str = "settle_delivery";

/// Answers false when the webhook is another plane's.
pub(super) async fn settle(unit: &mut Unit, settled: &Settlement, context: &Context) -> Result<bool, StoreError> {
    let held =
        sqlx::query("UPDATE webhooks SET last_answer = $3, last_at = $4 WHERE webhook_id = $1 AND claimed_by = $2")
            .bind(settled.webhook.to_string())
            .bind(&settled.owner)
            .bind(&settled.answer)
            .bind(context.at.as_millisecond())
            .execute(&mut unit.connection)
            .await
            .map_err(unavailable(VERB))?;
    if held.rows_affected() == 0 {
        return Ok(false);
    }
    match (settled.fate, settled.turn) {
        (Fate::Unwanted, _) => end(unit, settled, context).await?,
        (Fate::Again(at), Turn::Next) => again(unit, settled, at.as_millisecond()).await?,
        (Fate::Told, Turn::Next) => pass(unit, settled).await?,
        (Fate::Dead, Turn::Next) => {
            keep(unit, settled, context).await?;
            pass(unit, settled).await?;
        }
        (Fate::Told, Turn::Replay) => forget(unit, settled).await?,
        (Fate::Again(at), Turn::Replay) => put_back(unit, settled, Some(at.as_millisecond()), context).await?,
        (Fate::Dead, Turn::Replay) => put_back(unit, settled, None, context).await?,
    }
    Ok(true)
}

/// The receiver wants no more.
async fn end(unit: &mut Unit, settled: &Settlement, context: &Context) -> Result<(), StoreError> {
    sqlx::query("UPDATE webhooks SET state = 'gone', attempts = 0, next_attempt_at = NULL WHERE webhook_id = $1")
        .bind(settled.webhook.to_string())
        .execute(&mut unit.connection)
        .await
        .map_err(unavailable(VERB))?;
    super::changed(unit, context, &settled.scope, settled.webhook, "webhook.disable").await
}

/// The same event later.
async fn again(unit: &mut Unit, settled: &Settlement, at: i64) -> Result<(), StoreError> {
    sqlx::query("UPDATE webhooks SET attempts = $2, next_attempt_at = $3 WHERE webhook_id = $1")
        .bind(settled.webhook.to_string())
        .bind(settled.attempts)
        .bind(at)
        .execute(&mut unit.connection)
        .await
        .map_err(unavailable(VERB))?;
    Ok(())
}

/// On to the next event.
async fn pass(unit: &mut Unit, settled: &Settlement) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE webhooks SET delivered_to = max(delivered_to, $2), attempts = 0, next_attempt_at = NULL
         WHERE webhook_id = $1",
    )
    .bind(settled.webhook.to_string())
    .bind(settled.event.sequence)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    Ok(())
}

async fn keep(unit: &mut Unit, settled: &Settlement, context: &Context) -> Result<(), StoreError> {
    let event = &settled.event;
    sqlx::query(
        "INSERT INTO webhook_dead_letters (webhook_id, sequence, operation_id, kind, at, payload, attempts,
             last_answer, failed_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING",
    )
    .bind(settled.webhook.to_string())
    .bind(event.sequence)
    .bind(event.operation_id.to_string())
    .bind(event.kind.name())
    .bind(event.at.as_millisecond())
    .bind(row::text("event", &event.payload)?)
    .bind(settled.attempts)
    .bind(&settled.answer)
    .bind(context.at.as_millisecond())
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    Ok(())
}

async fn forget(unit: &mut Unit, settled: &Settlement) -> Result<(), StoreError> {
    sqlx::query("DELETE FROM webhook_dead_letters WHERE webhook_id = $1 AND sequence = $2")
        .bind(settled.webhook.to_string())
        .bind(settled.event.sequence)
        .execute(&mut unit.connection)
        .await
        .map_err(unavailable(VERB))?;
    Ok(())
}

async fn put_back(unit: &mut Unit, settled: &Settlement, at: Option<i64>, context: &Context) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE webhook_dead_letters SET attempts = $3, last_answer = $4, failed_at = $5, replay_at = $6
         WHERE webhook_id = $1 AND sequence = $2",
    )
    .bind(settled.webhook.to_string())
    .bind(settled.event.sequence)
    .bind(settled.attempts)
    .bind(&settled.answer)
    .bind(context.at.as_millisecond())
    .bind(at)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    Ok(())
}
