//! Creating an operation.

use std::collections::BTreeSet;

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
    operation::{Created, NewOperation},
};
use fettle_store_rows::operation::{TRIGGER, artifacts, created, key_reused, total_steps};
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
    Err(key_reused(key, &known))
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
    .bind(row::text(WHAT, &artifacts(&new.plan))?)
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
