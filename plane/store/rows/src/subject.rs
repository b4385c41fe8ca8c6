//! What every event and audit row of an operation says of it.

use fettle_store::{
    StoreError, change::Change, context::Context, fact::About, id::OperationId, operation::NewOperation,
    project::Project,
};
use serde::Deserialize;
use serde_json::{Value, json};
use sqlx_macros::FromRow;

use crate::row;

/// The facts of an operation that change with a new run only.
#[derive(Clone, Debug, FromRow, Deserialize)]
pub struct Subject {
    /// Which.
    pub operation_id: String,
    /// Its type.
    pub operation_type: String,
    version: String,
    org_id: String,
    project_id: String,
    /// Follows it everywhere.
    pub correlation_id: String,
    /// How many steps it has.
    pub total_steps: i64,
    run: i64,
    trace_parent: Option<String>,
}

impl Subject {
    /// The facts of an operation that is being created.
    #[must_use]
    pub fn of(new: &NewOperation, context: &Context) -> Self {
        Self {
            operation_id: new.id.to_string(),
            operation_type: new.plan.graph.operation_type.to_string(),
            version: new.plan.graph.version.to_string(),
            org_id: new.project.org_id.to_string(),
            project_id: new.project.project_id.to_string(),
            correlation_id: context.correlation_id.clone(),
            total_steps: i64::try_from(new.plan.graph.steps.len()).unwrap_or(i64::MAX),
            run: 1,
            trace_parent: new.trace_parent.clone(),
        }
    }

    /// What every line of a log says of it.
    #[must_use]
    pub fn about(&self) -> About {
        About {
            operation_id: self.operation_id.clone(),
            operation_type: self.operation_type.clone(),
            org_id: self.org_id.clone(),
            project_id: self.project_id.clone(),
            correlation_id: self.correlation_id.clone(),
            resource_name: self.resource_name(),
            trace_parent: self.trace_parent.clone(),
        }
    }

    /// The part of every event's payload that says which operation it is about.
    #[must_use]
    pub fn payload(&self) -> Value {
        json!({
            "operation_id": self.operation_id,
            "operation_type": self.operation_type,
            "version": self.version,
            "org_id": self.org_id,
            "project_id": self.project_id,
            "correlation_id": self.correlation_id,
            "resource_name": self.resource_name(),
            "total_steps": self.total_steps,
            "run": self.run,
        })
    }

    /// The name of the operation as a resource.
    #[must_use]
    pub fn resource_name(&self) -> String {
        format!("projects/{}/operations/{}", self.project_id, self.operation_id)
    }

    /// Whose it is.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn project(&self) -> Result<Project, StoreError> {
        let (project_id, org_id) = (&self.project_id, &self.org_id);
        Ok(Project { project_id: row::parse("project", project_id)?, org_id: row::parse("project", org_id)? })
    }

    /// The scope of its audit rows.
    #[must_use]
    pub fn scope(&self) -> String {
        format!("{}/{}", self.org_id, self.project_id)
    }

    /// Something of it changes.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn change(&self) -> Result<Change, StoreError> {
        Ok(Change::Operation(row::parse::<OperationId>("operation", &self.operation_id)?))
    }
}

/// Adds fields to a payload.
#[must_use]
pub fn with(mut payload: Value, fields: Value) -> Value {
    if let (Some(into), Value::Object(fields)) = (payload.as_object_mut(), fields) {
        into.extend(fields.into_iter().filter(|(_, value)| !value.is_null()));
    }
    payload
}
