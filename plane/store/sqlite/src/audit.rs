//! The audit trail.

use async_trait::async_trait;
use fettle_store::{
    StoreError,
    audit::{AuditRecord, AuditStore, DeniedCall, Refusal, STEP_DENIED},
    chain,
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
    let details = serde_json::to_value(denied).map_err(|error| StoreError::corrupt("denial", error))?;
    let row = AuditRecord {
        scope: subject.scope(),
        action: STEP_DENIED.to_owned(),
        resource_name: format!("{}/steps/{step_id}", subject.resource_name()),
        result: denial.rule.clone(),
        correlation_id: subject.correlation_id.clone(),
        details: Some(details),
        ..blank(context)
    };
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
    .bind(format!("{task_id}/{step_id}/{attempt}/{}/{}", denial.number, denial.at))
    .bind(link)
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
    let row = AuditRecord {
        scope: scope.to_owned(),
        action: action.to_owned(),
        resource_name: resource_name.to_owned(),
        result: result.to_owned(),
        ..blank(context)
    };
    let link = next_link(unit, &row).await?;
    sqlx::query(
        "INSERT INTO audit_logs (at, actor, scope, action, resource_name, result, correlation_id, link)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(row.at.as_millisecond())
    .bind(&row.actor)
    .bind(&row.scope)
    .bind(&row.action)
    .bind(&row.resource_name)
    .bind(&row.result)
    .bind(&row.correlation_id)
    .bind(link)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable("audit"))?;
    Ok(())
}

/// A row that says who and when, and nothing else yet.
fn blank(context: &Context) -> AuditRecord {
    AuditRecord {
        sequence: 0,
        at: context.at,
        actor: context.actor.to_string(),
        scope: String::new(),
        action: String::new(),
        resource_name: String::new(),
        result: String::new(),
        correlation_id: context.correlation_id.clone(),
        details: None,
        link: None,
    }
}

/// What links a row with the last one. There is one writer, so nothing comes between.
async fn next_link(unit: &mut Unit, row: &AuditRecord) -> Result<String, StoreError> {
    let last: Option<Option<String>> = sqlx::query_scalar("SELECT link FROM audit_logs ORDER BY sequence DESC LIMIT 1")
        .fetch_optional(&mut unit.connection)
        .await
        .map_err(unavailable("audit"))?;
    let previous = last.flatten().map(|text| row::parse("audit link", &text)).transpose()?;
    let link = chain::link(previous, row).map_err(|error| StoreError::corrupt("audit row", error))?;
    Ok(link.to_string())
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
    link: Option<String>,
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
                    link: found.link.map(|text| row::parse("audit link", &text)).transpose()?,
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
