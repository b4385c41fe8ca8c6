//! From rows to operations and steps.

use fettle_model::{name::Label, operation::OperationStatus};
use fettle_store::{
    StoreError,
    id::OperationId,
    operation::{Ending, Operation, OperationState, Step, StepState},
    page::Page,
    project::Project,
};
use sqlx::{FromRow, SqliteConnection};

use crate::{error::unavailable, row};

const WHAT: &str = "operation";
const STEP: &str = "operation step";

/// A state that does not fit its columns.
#[derive(Debug, thiserror::Error)]
#[error("status `{0}` does not fit the other columns")]
struct BadState(String);

#[derive(FromRow)]
struct Row {
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

impl Row {
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

    fn operation(self) -> Result<Operation, StoreError> {
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

#[derive(FromRow)]
struct StepRow {
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

    fn step(self) -> Result<Step, StoreError> {
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

/// One operation of a project.
pub(crate) async fn by_id(
    connection: &mut SqliteConnection,
    project: &Label,
    id: OperationId,
) -> Result<Option<Operation>, StoreError> {
    let found: Option<Row> = sqlx::query_as("SELECT * FROM operations WHERE operation_id = $1 AND project_id = $2")
        .bind(id.to_string())
        .bind(project.as_str())
        .fetch_optional(connection)
        .await
        .map_err(unavailable("operation"))?;
    found.map(Row::operation).transpose()
}

/// The operation that was requested with this key.
pub(crate) async fn by_key(
    connection: &mut SqliteConnection,
    project: &Label,
    key: &str,
) -> Result<Option<Operation>, StoreError> {
    let found: Option<Row> = sqlx::query_as("SELECT * FROM operations WHERE project_id = $1 AND idempotency_key = $2")
        .bind(project.as_str())
        .bind(key)
        .fetch_optional(connection)
        .await
        .map_err(unavailable("operation_by_key"))?;
    found.map(Row::operation).transpose()
}

/// Operations of a project, the newest first.
pub(crate) async fn list(
    connection: &mut SqliteConnection,
    project: &Label,
    status: Option<OperationStatus>,
    page: Page<OperationId>,
) -> Result<Vec<Operation>, StoreError> {
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT * FROM operations
         WHERE project_id = $1 AND ($2 IS NULL OR operation_id < $2) AND ($3 IS NULL OR status = $3)
         ORDER BY operation_id DESC LIMIT $4",
    )
    .bind(project.as_str())
    .bind(page.after.map(|id| id.to_string()))
    .bind(status.map(OperationStatus::name))
    .bind(page.size)
    .fetch_all(connection)
    .await
    .map_err(unavailable("operations"))?;
    rows.into_iter().map(Row::operation).collect()
}

/// The steps of an operation.
pub(crate) async fn steps(connection: &mut SqliteConnection, id: OperationId) -> Result<Vec<Step>, StoreError> {
    let rows: Vec<StepRow> =
        sqlx::query_as("SELECT * FROM operation_steps WHERE operation_id = $1 ORDER BY step_index, task_id")
            .bind(id.to_string())
            .fetch_all(connection)
            .await
            .map_err(unavailable("steps"))?;
    rows.into_iter().map(StepRow::step).collect()
}
