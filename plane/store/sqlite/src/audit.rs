//! The audit trail.

use async_trait::async_trait;
use fettle_store::{
    StoreError,
    audit::{AuditRecord, AuditStore, DeniedCall, Refusal},
    context::Context,
    id::OperationId,
    page::Page,
};
use fettle_store_rows::audit::{AuditRow, DeniedRow, mutation, refused};
pub(crate) use fettle_store_rows::audit::{PLATFORM, scope};

use crate::{SqliteStore, error::unavailable, operation::subject::Subject, writer::Unit};

/// Adds the row of a mutation of an operation, under its correlation id: what happens to its tasks belongs to its
/// story.
pub(crate) fn record_of(
    unit: &mut Unit,
    context: &Context,
    subject: &Subject,
    action: &'static str,
    resource_name: &str,
) {
    let context = Context { correlation_id: subject.correlation_id.clone(), ..context.clone() };
    record(unit, &context, &subject.scope(), action, resource_name);
}

/// Adds the row of a mutation.
pub(crate) fn record(unit: &mut Unit, context: &Context, scope: &str, action: &'static str, resource_name: &str) {
    unit.journal.audit(mutation(context, scope, action, resource_name));
}

/// The same with what else there is to say of the mutation.
pub(crate) fn record_with(
    unit: &mut Unit,
    context: &Context,
    scope: &str,
    action: &'static str,
    resource_name: &str,
    details: serde_json::Value,
) {
    let row = mutation(context, scope, action, resource_name);
    unit.journal.audit(AuditRecord { details: Some(details), ..row });
}

#[async_trait]
impl AuditStore for SqliteStore {
    async fn audit(&self, page: Page<i64>) -> Result<Vec<AuditRecord>, StoreError> {
        let rows: Vec<AuditRow> =
            sqlx::query_as("SELECT * FROM audit_logs WHERE sequence > $1 ORDER BY sequence LIMIT $2")
                .bind(page.after.unwrap_or(0))
                .bind(page.size)
                .fetch_all(&mut *self.readers.take("audit").await?)
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
        .fetch_all(&mut *self.readers.take("denied_calls").await?)
        .await
        .map_err(unavailable("denied calls"))?;
        rows.into_iter().map(DeniedRow::call).collect()
    }

    async fn record_refusal(&self, refusal: Refusal, context: Context) -> Result<(), StoreError> {
        self.writer
            .run("record_refusal", move |unit| {
                Box::pin(async move {
                    unit.journal.audit(refused(&context, &refusal));
                    Ok(())
                })
            })
            .await
    }
}
