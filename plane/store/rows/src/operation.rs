//! Rows of operations and their steps.

use std::collections::BTreeMap;

use fettle_model::{plan::Plan, reference::Reference};
use fettle_store::{
    StoreError,
    context::Context,
    id::{NodeId, OperationId},
    operation::{Concurrency, Ending, NewOperation, Operation, OperationState, Step, StepState, Terms, TriggerSource},
    project::Project,
};
use sqlx_macros::FromRow;

use crate::row;

const WHAT: &str = "operation";
const STEP: &str = "operation step";

/// A state that does not fit its columns.
#[derive(Debug, thiserror::Error)]
#[error("status `{0}` does not fit the other columns")]
struct BadState(String);

/// A cause that this version does not know.
#[derive(Debug, thiserror::Error)]
#[error("trigger source `{0}` is unknown")]
struct UnknownTrigger(String);

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
    linked_allocation_id: Option<String>,
    total_nodes: i64,
    run: i64,
    priority: i64,
    deadline: Option<i64>,
    max_parallel_nodes: Option<i64>,
    failure_budget: Option<i64>,
    max_concurrency_global: Option<i64>,
    max_concurrency_tenant: Option<i64>,
    max_concurrency_project: Option<i64>,
    requires: Option<String>,
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

    /// The row names the first node where there are several.
    fn linked_node_id(&self) -> Result<Option<NodeId>, StoreError> {
        (self.total_nodes == 1).then(|| row::parse(WHAT, &self.linked_node_id)).transpose()
    }

    fn terms(&self) -> Result<Terms, StoreError> {
        let count = |value: Option<i64>| value.map(|value| row::number(WHAT, value)).transpose();
        Ok(Terms {
            priority: row::number(WHAT, self.priority)?,
            deadline: row::optional_time(WHAT, self.deadline)?,
            max_parallel_nodes: count(self.max_parallel_nodes)?,
            failure_budget: count(self.failure_budget)?,
            max_concurrency: Concurrency {
                global: count(self.max_concurrency_global)?,
                tenant: count(self.max_concurrency_tenant)?,
                project: count(self.max_concurrency_project)?,
            },
            requires: row::optional_document(WHAT, self.requires.as_deref())?.unwrap_or_default(),
        })
    }

    /// The operation.
    ///
    /// # Errors
    /// When a column is malformed.
    pub fn operation(self) -> Result<Operation, StoreError> {
        Ok(Operation {
            state: self.state()?,
            linked_node_id: self.linked_node_id()?,
            terms: self.terms()?,
            id: row::parse(WHAT, &self.operation_id)?,
            operation_type: row::parse(WHAT, &self.operation_type)?,
            version: row::parse(WHAT, &self.version)?,
            project: Project {
                project_id: row::parse(WHAT, &self.project_id)?,
                org_id: row::parse(WHAT, &self.org_id)?,
            },
            requested_by: self.requested_by_user_id,
            target_selector: row::document(WHAT, &self.target_selector)?,
            linked_allocation_id: self.linked_allocation_id,
            total_nodes: row::number(WHAT, self.total_nodes)?,
            run: row::number(WHAT, self.run)?,
            idempotency_key: self.idempotency_key,
            request_digest: row::parse(WHAT, &self.request_digest)?,
            correlation_id: self.correlation_id,
            trigger_source: TriggerSource::from_name(&self.trigger_source)
                .ok_or_else(|| StoreError::corrupt(WHAT, UnknownTrigger(self.trigger_source)))?,
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
    node_id: String,
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
    settlement: Option<String>,
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
            node_id: row::parse(STEP, &self.node_id)?,
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
            settlement: row::optional_document(STEP, self.settlement.as_deref())?,
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

/// How many nodes an operation is for.
///
/// # Errors
/// When there are too many to count.
pub fn total_nodes(new: &NewOperation) -> Result<u32, StoreError> {
    u32::try_from(new.tasks.len()).map_err(|error| StoreError::corrupt("plan", error))
}

/// The node that the row names: the only one, or the first of them.
///
/// # Errors
/// `Conflict` when there is none.
pub fn first_node(new: &NewOperation) -> Result<NodeId, StoreError> {
    new.tasks.first().map(|task| task.node_id).ok_or_else(|| {
        StoreError::conflict("operation.no_node", format!("operation {} is for no node; name at least one", new.id))
    })
}

/// What a node must have; absent where any node will do, so that leasing has nothing to compare.
///
/// # Errors
/// When it cannot be written.
pub fn requires(new: &NewOperation) -> Result<Option<String>, StoreError> {
    Some(&new.terms.requires)
        .filter(|requires| !requires.is_empty())
        .map(|requires| row::text(WHAT, requires))
        .transpose()
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
        linked_node_id: if let [task] = new.tasks.as_slice() { Some(task.node_id) } else { None },
        linked_allocation_id: new.linked_allocation_id.clone(),
        total_nodes: total_nodes(new)?,
        run: 1,
        terms: new.terms.clone(),
        idempotency_key: new.idempotency_key.clone(),
        request_digest: new.request_digest,
        correlation_id: context.correlation_id.clone(),
        trigger_source: new.trigger_source,
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

/// The id that every operation of the next page is smaller than. A ULID begins with a digit below 8.
#[must_use]
pub fn before(after: Option<OperationId>) -> String {
    after.map_or_else(|| "8".to_owned(), |id| id.to_string())
}
