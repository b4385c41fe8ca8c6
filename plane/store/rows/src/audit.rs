//! Rows of the audit trail.

use fettle_model::{denial::Denial, digest::Digest};
use fettle_store::{
    StoreError,
    audit::{AuditRecord, DeniedCall, Refusal, STEP_DENIED},
    context::Context,
    project::Project,
};
use sqlx_macros::FromRow;

use crate::{row, subject::Subject};

/// The scope of what belongs to nobody in particular.
pub const PLATFORM: &str = "platform";

/// Denied calls kept of one operation: far more than its hosts report, and few enough for one that lies.
pub const DENIED_CALLS: i64 = 10_000;

/// The scope of what belongs to a project.
#[must_use]
pub fn scope(project: Option<&Project>) -> String {
    project.map_or_else(|| PLATFORM.to_owned(), |project| format!("{}/{}", project.org_id, project.project_id))
}

/// A row as it is stored.
#[derive(FromRow)]
pub struct AuditRow {
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

impl AuditRow {
    /// The record.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn record(self) -> Result<AuditRecord, StoreError> {
        Ok(AuditRecord {
            sequence: self.sequence,
            at: row::time("audit row", self.at)?,
            actor: self.actor,
            scope: self.scope,
            action: self.action,
            resource_name: self.resource_name,
            result: self.result,
            correlation_id: self.correlation_id,
            details: self.details.map(|text| row::document("audit row", &text)).transpose()?,
            link: self.link.map(|text| row::parse("audit link", &text)).transpose()?,
        })
    }
}

/// The row of a denied call.
#[derive(FromRow)]
pub struct DeniedRow {
    sequence: i64,
    details: String,
}

impl DeniedRow {
    /// Its number and the call.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn call(self) -> Result<(i64, DeniedCall), StoreError> {
        Ok((self.sequence, row::document("denied call", &self.details)?))
    }
}

/// The record of a mutation.
#[must_use]
pub fn mutation(context: &Context, scope: &str, action: &str, resource_name: &str) -> AuditRecord {
    AuditRecord {
        scope: scope.to_owned(),
        action: action.to_owned(),
        resource_name: resource_name.to_owned(),
        result: "ok".to_owned(),
        ..blank(context)
    }
}

/// The record of a mutation that was refused.
#[must_use]
pub fn refused(context: &Context, refusal: &Refusal) -> AuditRecord {
    let row = mutation(context, &refusal.scope, refusal.action, &refusal.resource_name);
    AuditRecord { result: refusal.code.to_owned(), details: refusal.details.clone(), ..row }
}

/// The record of a call that was denied to a step.
///
/// # Errors
/// When the call cannot be written as a document.
pub fn denied(context: &Context, subject: &Subject, denied: &DeniedCall) -> Result<AuditRecord, StoreError> {
    let details = serde_json::to_value(denied).map_err(|error| StoreError::corrupt("denial", error))?;
    Ok(AuditRecord {
        scope: subject.scope(),
        action: STEP_DENIED.to_owned(),
        resource_name: format!("{}/steps/{}", subject.resource_name(), denied.step_id),
        result: denied.denial.rule.clone(),
        correlation_id: subject.correlation_id.clone(),
        details: Some(details),
        ..blank(context)
    })
}

/// What makes the row of a denied call the same row when it is reported again.
#[must_use]
pub fn report_key(task_id: &str, denied: &DeniedCall) -> String {
    let DeniedCall { step_id, attempt, denial: Denial { number, at, .. }, .. } = denied;
    format!("{task_id}/{step_id}/{attempt}/{number}/{at}")
}

/// What links a record with the one before it.
///
/// # Errors
/// When the record has no canonical form.
pub fn link(previous: Option<Digest>, row: &AuditRecord) -> Result<Digest, StoreError> {
    fettle_store::chain::link(previous, row).map_err(|error| StoreError::corrupt("audit row", error))
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
