//! Rows of operations and their steps.

use std::collections::BTreeMap;

use fettle_model::{plan::Plan, reference::Reference};
use fettle_store::{
    StoreError,
    context::Context,
    operation::{Ending, NewOperation, Operation, OperationState, Step, StepState},
    project::Project,
};
use sqlx::FromRow;

use crate::row;

const WHAT: &str = "operation";
const STEP: &str = "operation step";

/// Until allocations exist, every operation comes from a person or a program of a tenant.
pub const TRIGGER: &str = "tenant_request";

/// A state that does not fit its columns.
#[derive(Debug, thiserror::Error)]
#[error("status `{0}` does not fit the other columns")]
struct BadState(String);

/// A row as it is stored.
#[derive(FromRow)]
pub struct OperationRow {
    operation_id: String,
    operation_type: String,
    version: String,
    org_id: String,
    project_id: String,
    requested_by_user_id: String,
    target_selector: String,
    idempotency_key: Option<String>,
    request_digest: String,
    correlation_id: String,
    trigger_source: String,
    linked_node_id: String,
    sources: String,
    inputs: String,
    plan_digest: String,
    total_steps: i64,
    status: String,
    failure: Option<String>,
    created_at: i64,
    started_at: Option<i64>,
    finished_at: Option<i64>,
    cancel_requested_at: Option<i64>,
}

impl OperationRow {
    fn state(&self) -> Result<OperationState, StoreError> {
        let bad = || StoreError::corrupt(WHAT, BadState(self.status.clone()));
        let started_at = row::optional_time(WHAT, self.started_at)?;
        let ending = match self.status.as_str() {
            "queued" => return Ok(OperationState::Queued),
            "running" => return Ok(OperationState::Running { started_at: started_at.ok_or_else(bad)? }),
            "succeeded" => Ending::Succeeded,
            "failed" => Ending::Failed(row::optional_document(WHAT, self.failure.as_deref())?.ok_or_else(bad)?),
            "canceled" => Ending::Canceled,
            _ => return Err(bad()),
        };
        let finished_at = row::optional_time(WHAT, self.finished_at)?.ok_or_else(bad)?;
        Ok(OperationState::Over { started_at, finished_at, ending })
    }

    /// The operation.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn operation(self) -> Result<Operation, StoreError> {
        Ok(Operation {
            state: self.state()?,
            id: row::parse(WHAT, &self.operation_id)?,
            operation_type: row::parse(WHAT, &self.operation_type)?,
            version: row::parse(WHAT, &self.version)?,
            project: Project {
                project_id: row::parse(WHAT, &self.project_id)?,
                org_id: row::parse(WHAT, &self.org_id)?,
            },
            requested_by: self.requested_by_user_id,
            target_selector: row::document(WHAT, &self.target_selector)?,
            node_id: row::parse(WHAT, &self.linked_node_id)?,
            idempotency_key: self.idempotency_key,
            request_digest: row::parse(WHAT, &self.request_digest)?,
            correlation_id: self.correlation_id,
            trigger_source: self.trigger_source,
            sources: row::document(WHAT, &self.sources)?,
            inputs: row::document(WHAT, &self.inputs)?,
            plan_digest: row::parse(WHAT, &self.plan_digest)?,
            total_steps: row::number(WHAT, self.total_steps)?,
            created_at: row::time(WHAT, self.created_at)?,
            cancel_requested_at: row::optional_time(WHAT, self.cancel_requested_at)?,
        })
    }
}

/// A step as it is stored.
#[derive(FromRow)]
pub struct StepRow {
    task_id: String,
    step_id: String,
    step_index: i64,
    kind: String,
    component: String,
    needs: String,
    status: String,
    attempt_number: i64,
    started_at: Option<i64>,
    percent: Option<i64>,
    message: Option<String>,
    last_log: Option<String>,
    outcome: Option<String>,
    duration_ms: Option<i64>,
    finished_at: Option<i64>,
}

impl StepRow {
    fn state(&self) -> Result<StepState, StoreError> {
        let bad = || StoreError::corrupt(STEP, BadState(self.status.clone()));
        match self.status.as_str() {
            "pending" => Ok(StepState::Pending),
            "running" => Ok(StepState::Running),
            _ => Ok(StepState::Over {
                outcome: row::optional_document(STEP, self.outcome.as_deref())?.ok_or_else(bad)?,
                duration_ms: row::number(STEP, self.duration_ms.unwrap_or(0))?,
                finished_at: row::optional_time(STEP, self.finished_at)?.ok_or_else(bad)?,
            }),
        }
    }

    /// The step.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn step(self) -> Result<Step, StoreError> {
        Ok(Step {
            state: self.state()?,
            task_id: row::parse(STEP, &self.task_id)?,
            id: row::parse(STEP, &self.step_id)?,
            index: row::number(STEP, self.step_index)?,
            kind: row::parse(STEP, &self.kind)?,
            component: row::parse(STEP, &self.component)?,
            needs: row::document(STEP, &self.needs)?,
            attempt: row::number(STEP, self.attempt_number)?,
            started_at: row::optional_time(STEP, self.started_at)?,
            percent: self.percent.map(|value| row::number(STEP, value)).transpose()?,
            message: self.message,
            last_log: self.last_log,
        })
    }
}

/// How many steps a plan has.
///
/// # Errors
/// When there are too many to count.
pub fn total_steps(plan: &Plan) -> Result<u32, StoreError> {
    u32::try_from(plan.graph.steps.len()).map_err(|error| StoreError::corrupt("plan", error))
}

/// The operation that was just created.
///
/// # Errors
/// When its plan has too many steps to count.
pub fn created(new: &NewOperation, context: &Context) -> Result<Operation, StoreError> {
    Ok(Operation {
        id: new.id,
        operation_type: new.plan.graph.operation_type.clone(),
        version: new.plan.graph.version.clone(),
        project: new.project.clone(),
        requested_by: context.actor.to_string(),
        target_selector: new.target_selector.clone(),
        node_id: new.node_id,
        idempotency_key: new.idempotency_key.clone(),
        request_digest: new.request_digest,
        correlation_id: context.correlation_id.clone(),
        trigger_source: TRIGGER.to_owned(),
        sources: new.plan.graph.sources.clone(),
        inputs: new.plan.inputs.clone(),
        plan_digest: new.plan_digest,
        total_steps: total_steps(&new.plan)?,
        created_at: context.at,
        state: OperationState::Queued,
        cancel_requested_at: None,
    })
}

/// Every artifact that an operation is made of, by its role.
#[must_use]
pub fn artifacts(plan: &Plan) -> BTreeMap<String, &Reference> {
    let mut artifacts = BTreeMap::from([
        ("definition".to_owned(), &plan.graph.sources.definition),
        ("catalog".to_owned(), &plan.graph.sources.catalog),
        ("policy".to_owned(), &plan.graph.sources.policy),
    ]);
    artifacts.extend(plan.graph.steps.iter().map(|step| (format!("step/{}", step.kind), &step.component)));
    artifacts
}

/// The key was used before for another request.
#[must_use]
pub fn key_reused(key: &str, known: &Operation) -> StoreError {
    StoreError::conflict(
        "operation.key_reused",
        format!("idempotency key `{key}` was used for operation {} with another request; choose a new key", known.id),
    )
}

/// It has ended, and cannot be canceled any more.
#[must_use]
pub fn is_over(known: &Operation) -> StoreError {
    StoreError::conflict(
        "operation.is_over",
        format!("operation {} has {} already; there is nothing left to cancel", known.id, known.state.status()),
    )
}
