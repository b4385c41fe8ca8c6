//! The audit trail.

use async_trait::async_trait;
use fettle_store::{
    StoreError,
    audit::{AuditRecord, AuditStore, DeniedCall, Refusal},
    context::Context,
    id::OperationId,
    page::Page,
};
use fettle_store_rows::audit::{AuditRow, DENIED_CALLS, DeniedRow, denied, link, mutation, refused, report_key};
pub(crate) use fettle_store_rows::audit::{PLATFORM, scope};

use crate::{SqliteStore, error::unavailable, operation::subject::Subject, row, writer::Unit};

/// The same under the correlation id of an operation: what happens to its tasks belongs to its story.
pub(crate) async fn record_of(
    unit: &mut Unit,
    context: &Context,
    subject: &Subject,
    action: &'static str,
    resource_name: &str,
) -> Result<(), StoreError> {
    let context = Context { correlation_id: subject.correlation_id.clone(), ..context.clone() };
    record(unit, &context, &subject.scope(), action, resource_name).await
}

/// Writes the row of a mutation into its transaction.
pub(crate) async fn record(
    unit: &mut Unit,
    context: &Context,
    scope: &str,
    action: &'static str,
    resource_name: &str,
) -> Result<(), StoreError> {
    insert(unit, mutation(context, scope, action, resource_name)).await
}

/// The same with what else there is to say of the mutation.
pub(crate) async fn record_with(
    unit: &mut Unit,
    context: &Context,
    scope: &str,
    action: &'static str,
    resource_name: &str,
    details: serde_json::Value,
) -> Result<(), StoreError> {
    let row = mutation(context, scope, action, resource_name);
    insert(unit, AuditRecord { details: Some(details), ..row }).await
}

/// Writes the row of a denied call, unless it is there: a report may come twice.
pub(crate) async fn record_denied(
    unit: &mut Unit,
    context: &Context,
    subject: &Subject,
    task_id: &str,
    call: &DeniedCall,
) -> Result<(), StoreError> {
    let row = denied(context, subject, call)?;
    let link = next_link(unit, &row).await?;
    sqlx::query(
        "INSERT INTO audit_logs (at, actor, scope, action, resource_name, result, correlation_id, operation_id,
             details, report_key, link)
         SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11
         WHERE (SELECT count(*) FROM audit_logs WHERE operation_id = $8 AND report_key IS NOT NULL) < $12
         ON CONFLICT DO NOTHING",
    )
    .bind(row.at.as_millisecond())
    .bind(&row.actor)
    .bind(&row.scope)
    .bind(&row.action)
    .bind(&row.resource_name)
    .bind(&row.result)
    .bind(&row.correlation_id)
    .bind(&subject.operation_id)
    .bind(row::text("denial", &row.details)?)
    .bind(report_key(task_id, call))
    .bind(link)
    .bind(DENIED_CALLS)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("audit"))?;
    Ok(())
}

async fn insert(unit: &mut Unit, row: AuditRecord) -> Result<(), StoreError> {
    let link = next_link(unit, &row).await?;
    let details = row.details.as_ref().map(|details| row::text("audit row", details)).transpose()?;
    sqlx::query(
        "INSERT INTO audit_logs (at, actor, scope, action, resource_name, result, correlation_id, link, details)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    )
    .bind(row.at.as_millisecond())
    .bind(&row.actor)
    .bind(&row.scope)
    .bind(&row.action)
    .bind(&row.resource_name)
    .bind(&row.result)
    .bind(&row.correlation_id)
    .bind(link)
    .bind(details)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("audit"))?;
    Ok(())
}

/// What links a row with the last one. There is one writer, so nothing comes between.
async fn next_link(unit: &mut Unit, row: &AuditRecord) -> Result<String, StoreError> {
    let last: Option<Option<String>> = sqlx::query_scalar("SELECT link FROM audit_logs ORDER BY sequence DESC LIMIT 1")
        .fetch_optional(&mut unit.connection)
        .await
        .map_err(unavailable("audit"))?;
    let previous = last.flatten().map(|text| row::parse("audit link", &text)).transpose()?;
    Ok(link(previous, row)?.to_string())
}

#[async_trait]
impl AuditStore for SqliteStore {
    async fn audit(&self, page: Page<i64>) -> Result<Vec<AuditRecord>, StoreError> {
        let rows: Vec<AuditRow> =
            sqlx::query_as("SELECT * FROM audit_logs WHERE sequence > $1 ORDER BY sequence LIMIT $2")
                .bind(page.after.unwrap_or(0))
                .bind(page.size)
                .fetch_all(&self.readers)
                .await
                .map_err(unavailable("audit"))?;
        rows.into_iter().map(AuditRow::record).collect()
    }

    async fn denied_calls(
        &self,
        operation: OperationId,
        page: Page<i64>,
    ) -> Result<Vec<(i64, DeniedCall)>, StoreError> {
        let rows: Vec<DeniedRow> = sqlx::query_as(
            "SELECT sequence, details FROM audit_logs
             WHERE operation_id = $1 AND report_key IS NOT NULL AND sequence > $2 ORDER BY sequence LIMIT $3",
        )
        .bind(operation.to_string())
        .bind(page.after.unwrap_or(0))
        .bind(page.size)
        .fetch_all(&self.readers)
        .await
        .map_err(unavailable("denied calls"))?;
        rows.into_iter().map(DeniedRow::call).collect()
    }

    async fn record_refusal(&self, refusal: Refusal, context: Context) -> Result<(), StoreError> {
        self.writer
            .run("record_refusal", move |unit| Box::pin(async move { insert(unit, refused(&context, &refusal)).await }))
            .await
    }
}
