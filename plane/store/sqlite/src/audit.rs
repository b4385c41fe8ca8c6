//! The audit trail.

use async_trait::async_trait;
use fettle_store::{
    StoreError,
    audit::{AuditRecord, AuditStore, DeniedCall, Refusal, STEP_DENIED},
    context::Context,
    id::OperationId,
    page::Page,
    project::Project,
};
use sqlx::FromRow;

use crate::{SqliteStore, error::unavailable, operation::subject::Subject, row, writer::Unit};

/// The scope of what belongs to nobody in particular.
pub(crate) const PLATFORM: &str = "platform";

/// The scope of what belongs to a project.
pub(crate) fn scope(project: Option<&Project>) -> String {
    project.map_or_else(|| PLATFORM.to_owned(), |project| format!("{}/{}", project.org_id, project.project_id))
}

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
    insert(unit, context, scope, action, resource_name, "ok").await
}

/// Denied calls kept of one operation: far more than its hosts report, and few enough for one that lies.
const DENIED_CALLS: i64 = 10_000;

/// Writes the row of a denied call, unless it is there: a report may come twice.
pub(crate) async fn record_denied(
    unit: &mut Unit,
    context: &Context,
    subject: &Subject,
    task_id: &str,
    denied: &DeniedCall,
) -> Result<(), StoreError> {
    let DeniedCall { step_id, attempt, denial, .. } = denied;
    sqlx::query(
        "INSERT INTO audit_logs (at, actor, scope, action, resource_name, result, correlation_id, operation_id,
             details, report_key)
         SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10
         WHERE (SELECT count(*) FROM audit_logs WHERE operation_id = $8 AND report_key IS NOT NULL) < $11
         ON CONFLICT DO NOTHING",
    )
    .bind(context.at.as_millisecond())
    .bind(context.actor.to_string())
    .bind(subject.scope())
    .bind(STEP_DENIED)
    .bind(format!("{}/steps/{step_id}", subject.resource_name()))
    .bind(&denial.rule)
    .bind(&subject.correlation_id)
    .bind(&subject.operation_id)
    .bind(row::text("denial", denied)?)
    .bind(format!("{task_id}/{step_id}/{attempt}/{}/{}", denial.number, denial.at))
    .bind(DENIED_CALLS)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("audit"))?;
    Ok(())
}

async fn insert(
    unit: &mut Unit,
    context: &Context,
    scope: &str,
    action: &str,
    resource_name: &str,
    result: &str,
) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO audit_logs (at, actor, scope, action, resource_name, result, correlation_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(context.at.as_millisecond())
    .bind(context.actor.to_string())
    .bind(scope)
    .bind(action)
    .bind(resource_name)
    .bind(result)
    .bind(&context.correlation_id)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("audit"))?;
    Ok(())
}

#[derive(FromRow)]
struct Row {
    sequence: i64,
    at: i64,
    actor: String,
    scope: String,
    action: String,
    resource_name: String,
    result: String,
    correlation_id: String,
    details: Option<String>,
}

#[derive(FromRow)]
struct DeniedRow {
    sequence: i64,
    details: String,
}

#[async_trait]
impl AuditStore for SqliteStore {
    async fn audit(&self, page: Page<i64>) -> Result<Vec<AuditRecord>, StoreError> {
        let rows: Vec<Row> = sqlx::query_as("SELECT * FROM audit_logs WHERE sequence > $1 ORDER BY sequence LIMIT $2")
            .bind(page.after.unwrap_or(0))
            .bind(page.size)
            .fetch_all(&self.readers)
            .await
            .map_err(unavailable("audit"))?;
        rows.into_iter()
            .map(|found| {
                Ok(AuditRecord {
                    sequence: found.sequence,
                    at: row::time("audit row", found.at)?,
                    actor: found.actor,
                    scope: found.scope,
                    action: found.action,
                    resource_name: found.resource_name,
                    result: found.result,
                    correlation_id: found.correlation_id,
                    details: found.details.map(|text| row::document("audit row", &text)).transpose()?,
                })
            })
            .collect()
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
        rows.into_iter().map(|found| Ok((found.sequence, row::document("denied call", &found.details)?))).collect()
    }

    async fn record_refusal(&self, refusal: Refusal, context: Context) -> Result<(), StoreError> {
        self.writer
            .run("record_refusal", move |unit| {
                Box::pin(async move {
                    insert(unit, &context, &refusal.scope, refusal.action, &refusal.resource_name, refusal.code).await
                })
            })
            .await
    }
}
