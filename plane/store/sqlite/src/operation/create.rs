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
    fact::Fact,
    operation::{Created, NewOperation},
};
use fettle_store_rows::operation::{
    artifacts, created, first_node, key_reused, requires, tasks, total_nodes, total_steps,
};
use jiff::Timestamp;
use serde::Serialize;

use crate::{
    audit,
    definition::insist_on_usable,
    error::unavailable,
    event,
    operation::{read, subject::Subject},
    policy, row,
    writer::Unit,
};

const WHAT: &str = "operation";
const VERB: &str = "create_operation";

pub(crate) async fn create(unit: &mut Unit, new: &NewOperation, context: &Context) -> Result<Created, StoreError> {
    if !insert(unit, new, context).await? {
        return repeated(unit, new).await;
    }
    insist_on_usable(unit, &new.plan.graph.operation_type, &new.plan.graph.version).await?;
    insert_parts(unit, new).await?;
    policy::record_decision(unit, new).await?;
    let subject = Subject::of(new, context);
    event::append(unit, &subject.operation_id, EventKind::Requested, context.at, &subject.payload()).await?;
    audit::record(unit, context, &subject.scope(), "operation.create", &subject.resource_name()).await?;
    for task in &new.tasks {
        unit.announce(Change::TaskReady(task.node_id));
    }
    if new.terms.deadline.is_some() {
        unit.announce(Change::Deadline);
    }
    unit.witness(Fact::OperationRequested { about: subject.about() });
    Ok(Created::New(created(new, context)?))
}

/// Answers false when the idempotency key is there already.
async fn insert(unit: &mut Unit, new: &NewOperation, context: &Context) -> Result<bool, StoreError> {
    let inserted = sqlx::query(
        "INSERT INTO operations (operation_id, operation_type, version, org_id, project_id, requested_by_user_id,
             target_selector, idempotency_key, request_digest, correlation_id, trigger_source, linked_node_id, sources,
             inputs, plan_digest, total_steps, created_at, total_nodes, priority, deadline, max_parallel_nodes,
             failure_budget, max_concurrency_global, max_concurrency_tenant, max_concurrency_project, requires,
             linked_allocation_id, trace_parent, status)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
             $23, $24, $25, $26, $27, $28, 'queued')
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
    .bind(new.trigger_source.name())
    .bind(first_node(new)?.to_string())
    .bind(row::text(WHAT, &new.plan.graph.sources)?)
    .bind(row::text(WHAT, &new.plan.inputs)?)
    .bind(new.plan_digest.to_string())
    .bind(total_steps(&new.plan)?)
    .bind(context.at.as_millisecond())
    .bind(total_nodes(new)?)
    .bind(new.terms.priority)
    .bind(new.terms.deadline.map(Timestamp::as_millisecond))
    .bind(new.terms.max_parallel_nodes)
    .bind(new.terms.failure_budget)
    .bind(new.terms.max_concurrency.global)
    .bind(new.terms.max_concurrency.tenant)
    .bind(new.terms.max_concurrency.project)
    .bind(requires(new)?)
    .bind(&new.linked_allocation_id)
    .bind(&new.trace_parent)
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

/// The tasks, their steps, and every artifact that the operation is made of, so that "what ran this
/// component" is one query. One call, because each is a turn of the connection's thread.
async fn insert_parts(unit: &mut Unit, new: &NewOperation) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO tasks (task_id, operation_id, node_id, status, org_id, priority)
         SELECT value ->> 'task_id', $1, value ->> 'node_id', 'ready', $2, $3 FROM json_each($4);
         INSERT INTO operation_steps (task_id, operation_id, step_index, step_id, kind, component, needs)
         SELECT task.value ->> 'task_id', $1, step.key, step.value ->> 'id', step.value ->> 'kind',
             step.value ->> 'component', step.value -> 'needs'
         FROM json_each($4) AS task, json_each($5) AS step;
         INSERT INTO operation_artifacts (operation_id, role, reference) SELECT $1, key, value FROM json_each($6)",
    )
    .bind(new.id.to_string())
    .bind(new.project.org_id.as_str())
    .bind(new.terms.priority)
    .bind(tasks(new)?)
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
