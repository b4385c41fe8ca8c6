//! Creating an operation.

use std::collections::{BTreeMap, BTreeSet};

use fettle_model::{
    name::{StepId, StepKind},
    plan::Plan,
    reference::Reference,
};
use fettle_store::{
    StoreError,
    change::Change,
    context::Context,
    event::EventKind,
    operation::{Created, NewOperation, Operation, OperationState},
};
use serde::Serialize;

use crate::{
    audit,
    definition::insist_on_usable,
    error::unavailable,
    event,
    operation::{read, subject::Subject},
    row,
    writer::Unit,
};

const WHAT: &str = "operation";
const VERB: &str = "create_operation";

/// Until allocations exist, every operation comes from a person or a program of a tenant.
const TRIGGER: &str = "tenant_request";

pub(crate) async fn create(unit: &mut Unit, new: &NewOperation, context: &Context) -> Result<Created, StoreError> {
    if !insert(unit, new, context).await? {
        return repeated(unit, new).await;
    }
    insist_on_usable(unit, &new.plan).await?;
    insert_parts(unit, new).await?;
    let subject = Subject::of(new, context);
    event::append(unit, &subject.operation_id, EventKind::Requested, context.at, &subject.payload()).await?;
    audit::record(unit, context, &subject.scope(), "operation.create", &subject.resource_name()).await?;
    unit.announce(Change::TaskReady(new.node_id));
    Ok(Created::New(created(new, context)?))
}

fn total_steps(plan: &Plan) -> Result<u32, StoreError> {
    u32::try_from(plan.graph.steps.len()).map_err(|error| StoreError::corrupt("plan", error))
}

fn created(new: &NewOperation, context: &Context) -> Result<Operation, StoreError> {
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

/// Answers false when the idempotency key is there already.
async fn insert(unit: &mut Unit, new: &NewOperation, context: &Context) -> Result<bool, StoreError> {
    let inserted = sqlx::query(
        "INSERT INTO operations (operation_id, operation_type, version, org_id, project_id, requested_by_user_id,
             target_selector, idempotency_key, request_digest, correlation_id, trigger_source, linked_node_id, sources,
             inputs, plan_digest, total_steps, status, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, 'queued', $17)
         ON CONFLICT (project_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING",
    )
    .bind(new.id.to_string())
    .bind(new.plan.graph.operation_type.as_str())
    .bind(new.plan.graph.version.as_str())
    .bind(new.project.org_id.as_str())
    .bind(new.project.project_id.as_str())
    .bind(context.actor.to_string())
    .bind(row::text(WHAT, &new.target_selector)?)
    .bind(&new.idempotency_key)
    .bind(new.request_digest.to_string())
    .bind(&context.correlation_id)
    .bind(TRIGGER)
    .bind(new.node_id.to_string())
    .bind(row::text(WHAT, &new.plan.graph.sources)?)
    .bind(row::text(WHAT, &new.plan.inputs)?)
    .bind(new.plan_digest.to_string())
    .bind(total_steps(&new.plan)?)
    .bind(context.at.as_millisecond())
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    Ok(inserted.rows_affected() > 0)
}

async fn repeated(unit: &mut Unit, new: &NewOperation) -> Result<Created, StoreError> {
    let key = new.idempotency_key.as_deref().unwrap_or_default();
    let known = read::by_key(&mut unit.connection, &new.project.project_id, key)
        .await?
        .ok_or_else(|| StoreError::not_found("operation with idempotency key", key))?;
    if known.request_digest == new.request_digest {
        return Ok(Created::Repeated(known));
    }
    Err(StoreError::conflict(
        "operation.key_reused",
        format!("idempotency key `{key}` was used for operation {} with another request; choose a new key", known.id),
    ))
}

#[derive(Serialize)]
struct StepColumns<'a> {
    id: &'a StepId,
    kind: &'a StepKind,
    component: &'a Reference,
    needs: &'a BTreeSet<StepId>,
}

/// The task, its steps, and every artifact that the operation is made of, so that "what ran this
/// component" is one query. One call, because each is a turn of the connection's thread.
async fn insert_parts(unit: &mut Unit, new: &NewOperation) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO tasks (task_id, operation_id, node_id, status) VALUES ($1, $2, $3, 'ready');
         INSERT INTO operation_steps (task_id, operation_id, step_index, step_id, kind, component, needs)
         SELECT $1, $2, key, value ->> 'id', value ->> 'kind', value ->> 'component', value -> 'needs'
         FROM json_each($4);
         INSERT INTO operation_artifacts (operation_id, role, reference) SELECT $2, key, value FROM json_each($5)",
    )
    .bind(new.task_id.to_string())
    .bind(new.id.to_string())
    .bind(new.node_id.to_string())
    .bind(steps(&new.plan)?)
    .bind(artifacts(&new.plan)?)
    .execute(&mut unit.connection)
    .await
    .map_err(unavailable(VERB))?;
    Ok(())
}

fn steps(plan: &Plan) -> Result<String, StoreError> {
    let columns = plan.graph.steps.iter().map(|step| StepColumns {
        id: &step.id,
        kind: &step.kind,
        component: &step.component,
        needs: &step.needs,
    });
    row::text(WHAT, &columns.collect::<Vec<_>>())
}

fn artifacts(plan: &Plan) -> Result<String, StoreError> {
    let mut artifacts = BTreeMap::from([
        ("definition".to_owned(), &plan.graph.sources.definition),
        ("catalog".to_owned(), &plan.graph.sources.catalog),
        ("policy".to_owned(), &plan.graph.sources.policy),
    ]);
    artifacts.extend(plan.graph.steps.iter().map(|step| (format!("step/{}", step.kind), &step.component)));
    row::text(WHAT, &artifacts)
}
