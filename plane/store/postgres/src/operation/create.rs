//! Creating an operation.

use fettle_model::plan::Plan;
use fettle_store::{
    StoreError,
    change::Change,
    context::Context,
    event::EventKind,
    fact::Fact,
    operation::{Created, NewOperation},
};
use fettle_store_rows::{
    definition::check_usable,
    operation::{OperationRow, artifacts, created, first_node, key_reused, requires, total_nodes, total_steps},
    subject::Subject,
};

use jiff::Timestamp;

use super::operations;
use crate::{
    audit,
    journal::clean,
    row,
    unit::{Asking, Unit},
};

const WHAT: &str = "operation";

/// Everything of an operation in one statement: nothing of it when its key is there already, or when its
/// version cannot be used. Answers whether it is new, and the status of the version.
const INSERT: &str = "
WITH version AS (
    SELECT status FROM operation_definition_versions WHERE operation_type = $2 AND version = $3
), operation AS (
    INSERT INTO operations (operation_id, operation_type, version, org_id, project_id, requested_by_user_id,
        target_selector, idempotency_key, request_digest, correlation_id, trigger_source, linked_node_id, sources,
        inputs, plan_digest, total_steps, created_at, total_nodes, priority, deadline, max_parallel_nodes,
        failure_budget, max_concurrency_global, max_concurrency_tenant, max_concurrency_project, requires,
        linked_allocation_id, trace_parent, status)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $26, $27, $28, $29, $30, $31,
        $32, $33, $34, $35, $36, 'queued'
    WHERE NOT EXISTS (SELECT 1 FROM version WHERE status IN ('draft', 'retired'))
    ON CONFLICT (project_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
    RETURNING operation_id
), task AS (
    INSERT INTO tasks (task_id, operation_id, node_id, status, org_id, priority)
    SELECT task.task_id, operation_id, task.node_id, 'ready', $4, $27 FROM operation,
        unnest($18::text[], $25::text[]) AS task (task_id, node_id)
), steps AS (
    INSERT INTO operation_steps (task_id, operation_id, step_index, step_id, kind, component, needs)
    SELECT task.task_id, operation_id, step.* FROM operation, unnest($18::text[]) AS task (task_id),
        unnest($19::bigint[], $20::text[], $21::text[], $22::text[], $23::text[]) AS step
), artifacts AS (
    INSERT INTO operation_artifacts (operation_id, role, reference)
    SELECT operation_id, artifact.* FROM operation, unnest($24::text[], $37::text[]) AS artifact
), decision AS (
    INSERT INTO operation_decisions (operation_id, document) SELECT operation_id, $38 FROM operation WHERE $38 IS NOT NULL
)
SELECT EXISTS (SELECT 1 FROM operation), (SELECT status FROM version)";

pub(crate) async fn create(unit: &mut Unit, new: &NewOperation, context: &Context) -> Result<Created, StoreError> {
    let (is_new, status) = insert(unit, new, context).await?;
    if !is_new {
        return match repeated(unit, new).await? {
            Some(known) => Ok(known),
            None => {
                check_usable(&new.plan.graph.operation_type, &new.plan.graph.version, status.as_deref())?;
                Err(StoreError::not_found("operation with idempotency key", key(new)))
            }
        };
    }
    let subject = Subject::of(new, context);
    unit.journal.event(&subject.operation_id, EventKind::Requested, context.at, &subject.payload())?;
    audit::record(unit, context, &subject.scope(), "operation.create", &subject.resource_name());
    for task in &new.tasks {
        unit.announce(Change::TaskReady(task.node_id));
    }
    if new.terms.deadline.is_some() {
        unit.announce(Change::Deadline);
    }
    unit.witness(Fact::OperationRequested { about: subject.about() });
    Ok(Created::New(created(new, context)?))
}

fn key(new: &NewOperation) -> &str {
    new.idempotency_key.as_deref().unwrap_or_default()
}

async fn insert(unit: &mut Unit, new: &NewOperation, context: &Context) -> Result<(bool, Option<String>), StoreError> {
    let graph = &new.plan.graph;
    let target_selector = row::text(WHAT, &new.target_selector)?;
    let (sources, inputs) = (row::text(WHAT, &graph.sources)?, row::text(WHAT, &new.plan.inputs)?);
    let decision = new.decision.as_ref().map(|decision| row::text("decision", decision)).transpose()?;
    let total_steps = i64::from(total_steps(&new.plan)?);
    let (steps, terms, requires) = (steps(&new.plan)?, &new.terms, requires(new)?);
    let (first, total_nodes) = (first_node(new)?.to_string(), i64::from(total_nodes(new)?));
    let (roles, references): (Vec<_>, Vec<_>) =
        artifacts(&new.plan).into_iter().map(|(role, reference)| (role, reference.to_string())).unzip();
    let answer = unit
        .look_for(INSERT, |query: Asking<(bool, Option<String>)>| {
            query
                .bind(new.id.to_string())
                .bind(graph.operation_type.to_string())
                .bind(graph.version.to_string())
                .bind(new.project.org_id.to_string())
                .bind(new.project.project_id.to_string())
                .bind(clean(&context.actor.to_string()))
                .bind(target_selector)
                .bind(new.idempotency_key.as_deref().map(clean))
                .bind(new.request_digest.to_string())
                .bind(clean(&context.correlation_id))
                .bind(new.trigger_source.name())
                .bind(first)
                .bind(sources)
                .bind(inputs)
                .bind(new.plan_digest.to_string())
                .bind(total_steps)
                .bind(context.at.as_millisecond())
                .bind(new.tasks.iter().map(|task| task.id.to_string()).collect::<Vec<_>>())
                .bind((0..total_steps).collect::<Vec<i64>>())
                .bind(steps.ids)
                .bind(steps.kinds)
                .bind(steps.components)
                .bind(steps.needs)
                .bind(roles)
                .bind(new.tasks.iter().map(|task| task.node_id.to_string()).collect::<Vec<_>>())
                .bind(total_nodes)
                .bind(i64::from(terms.priority))
                .bind(terms.deadline.map(Timestamp::as_millisecond))
                .bind(terms.max_parallel_nodes.map(i64::from))
                .bind(terms.failure_budget.map(i64::from))
                .bind(terms.max_concurrency.global.map(i64::from))
                .bind(terms.max_concurrency.tenant.map(i64::from))
                .bind(terms.max_concurrency.project.map(i64::from))
                .bind(requires)
                .bind(new.linked_allocation_id.clone())
                .bind(new.trace_parent.clone())
                .bind(references)
                .bind(decision)
        })
        .await?;
    let (is_new, status) = answer.unwrap_or_default();
    if is_new {
        unit.has_written();
    }
    Ok((is_new, status))
}

/// The columns of the steps of a plan.
#[derive(Default)]
struct Steps {
    ids: Vec<String>,
    kinds: Vec<String>,
    components: Vec<String>,
    needs: Vec<String>,
}

fn steps(plan: &Plan) -> Result<Steps, StoreError> {
    let mut columns = Steps::default();
    for step in &plan.graph.steps {
        columns.ids.push(step.id.to_string());
        columns.kinds.push(step.kind.to_string());
        columns.components.push(step.component.to_string());
        columns.needs.push(row::text(WHAT, &step.needs)?);
    }
    Ok(columns)
}

/// What the key was used for before; none when it is not known.
async fn repeated(unit: &mut Unit, new: &NewOperation) -> Result<Option<Created>, StoreError> {
    let found = unit
        .look_for(operations!("WHERE project_id = $1 AND idempotency_key = $2"), |query: Asking<OperationRow>| {
            query.bind(new.project.project_id.to_string()).bind(clean(key(new)))
        })
        .await?;
    let Some(known) = found.map(OperationRow::operation).transpose()? else { return Ok(None) };
    if known.request_digest == new.request_digest {
        Ok(Some(Created::Repeated(known)))
    } else {
        Err(key_reused(key(new), &known))
    }
}
