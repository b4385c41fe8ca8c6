//! Rows of overlays of operation types.

use fettle_model::{
    canonical,
    name::OperationType,
    overlay::{Level, Overlay},
};
use fettle_store::{
    StoreError,
    context::Context,
    policy::{CHANGED, PolicyDocument, PolicyScope, Precondition},
    project::Project,
};
use serde_json::{Value, json};
use sqlx_macros::FromRow;

use crate::row;

/// What a record is called in errors.
pub const WHAT: &str = "operation policy";

/// A row as it is stored.
#[derive(FromRow)]
pub struct PolicyRow {
    scope: String,
    org_id: String,
    project_id: String,
    operation_type: String,
    revision: i64,
    document: String,
    digest: String,
    updated_at: i64,
    updated_by: String,
}

impl PolicyRow {
    fn scope(&self) -> Result<PolicyScope, StoreError> {
        match self.scope.as_str() {
            "project" => Ok(PolicyScope::Project(Project {
                project_id: row::parse(WHAT, &self.project_id)?,
                org_id: row::parse(WHAT, &self.org_id)?,
            })),
            "tenant" => Ok(PolicyScope::Tenant(row::parse(WHAT, &self.org_id)?)),
            // The table takes nothing else.
            _ => Ok(PolicyScope::Global),
        }
    }

    /// The overlay.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn policy(self) -> Result<PolicyDocument, StoreError> {
        Ok(PolicyDocument {
            scope: self.scope()?,
            operation_type: row::parse(WHAT, &self.operation_type)?,
            revision: row::number(WHAT, self.revision)?,
            digest: row::parse(WHAT, &self.digest)?,
            overlay: row::document(WHAT, &self.document)?,
            updated_at: row::time(WHAT, self.updated_at)?,
            updated_by: self.updated_by,
        })
    }
}

/// The columns of a scope: its name, the organisation, the project.
#[must_use]
pub fn columns(scope: &PolicyScope) -> [&str; 3] {
    match scope {
        PolicyScope::Global => [Level::Global.name(), "", ""],
        PolicyScope::Tenant(org_id) => [Level::Tenant.name(), org_id.as_str(), ""],
        PolicyScope::Project(project) => [Level::Project.name(), project.org_id.as_str(), project.project_id.as_str()],
    }
}

/// Whether somebody may change what is stored.
///
/// # Errors
/// `Conflict` with [`CHANGED`] when the precondition does not hold.
pub fn insist(
    scope: &PolicyScope,
    operation_type: &OperationType,
    precondition: &Precondition,
    stored: Option<&PolicyDocument>,
) -> Result<(), StoreError> {
    if precondition.holds(stored) {
        return Ok(());
    }
    let now = match stored {
        Some(stored) => format!("its ETag is \"{}\" now, by {}", stored.tag(), stored.updated_by),
        None => "there is none now".to_owned(),
    };
    let message = format!(
        "the policy of `{operation_type}` in {scope} is not what the request expects: {now}; read it and try again"
    );
    Err(StoreError::conflict(CHANGED, message))
}

/// The overlay that takes the place of the stored one.
///
/// # Errors
/// When it has no canonical form.
pub fn next(
    scope: &PolicyScope,
    operation_type: &OperationType,
    overlay: &Overlay,
    stored: Option<&PolicyDocument>,
    context: &Context,
) -> Result<PolicyDocument, StoreError> {
    Ok(PolicyDocument {
        revision: stored.map_or(1, |stored| stored.revision + 1),
        digest: canonical::digest(overlay).map_err(|error| StoreError::corrupt(WHAT, error))?,
        scope: scope.clone(),
        operation_type: operation_type.clone(),
        overlay: overlay.clone(),
        updated_at: context.at,
        updated_by: context.actor.to_string(),
    })
}

/// The revision as a column.
///
/// # Errors
/// When it is too large for one.
pub fn revision(policy: &PolicyDocument) -> Result<i64, StoreError> {
    i64::try_from(policy.revision).map_err(|error| StoreError::corrupt(WHAT, error))
}

/// The name of an overlay as a resource.
#[must_use]
pub fn resource_name(operation_type: &OperationType) -> String {
    format!("operation-policies/{operation_type}")
}

/// What a change is called in the audit trail.
#[must_use]
pub const fn action(level: Level, is_put: bool) -> &'static str {
    match (level, is_put) {
        (Level::Global, true) => "global_policy.put",
        (Level::Global, false) => "global_policy.delete",
        (Level::Tenant, true) => "tenant_policy.put",
        (Level::Tenant, false) => "tenant_policy.delete",
        (Level::Project, true) => "project_policy.put",
        (Level::Project, false) => "project_policy.delete",
    }
}

/// What the audit row of a change says: what was there before and after it.
#[must_use]
pub fn details(before: Option<&PolicyDocument>, after: Option<&PolicyDocument>) -> Value {
    let shown = |policy: Option<&PolicyDocument>| {
        policy.map(|policy| json!({ "revision": policy.revision, "policy": policy.overlay }))
    };
    json!({ "before": shown(before), "after": shown(after) })
}
