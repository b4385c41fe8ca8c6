//! Creating operations.

use std::collections::{BTreeMap, BTreeSet, HashSet};

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
use fettle_store_rows::operation::{artifacts, created, first_node, key_reused, requires, total_nodes, total_steps};
use jiff::Timestamp;
use serde::Serialize;

use crate::{
    audit,
    definition::insist_on_usable,
    error::unavailable,
    lane::Together,
    operation::{read, subject::Subject},
    row,
    writer::Unit,
};

const WHAT: &str = "operation";

/// Operations of one statement, at most: their documents are one text while they are written.
const ROWS: usize = 32;

/// New operations.
pub(crate) struct Create;

/// What somebody asks for.
pub(crate) struct Asked {
    pub(crate) operation: NewOperation,
    pub(crate) context: Context,
}

impl Together for Create {
    const VERB: &'static str = "create_operation";
    type Asked = Asked;
    type Answer = Created;

    async fn run(unit: &mut Unit, asked: &[Asked]) -> Result<Vec<Result<Created, StoreError>>, StoreError> {
        let mut answers = Vec::with_capacity(asked.len());
        for asked in asked.chunks(ROWS) {
            let rows: Vec<_> = asked.iter().map(NewRow::of).collect();
            let inserted = insert(unit, rows.iter().flatten()).await?;
            for (asked, row) in asked.iter().zip(rows) {
                answers.push(match row {
                    Ok(row) if inserted.contains(&row.operation_id) => Ok(begun(unit, asked)?),
                    Ok(_) => known(unit, &asked.operation).await,
                    Err(refused) => Err(refused),
                });
            }
        }
        Ok(answers)
    }
}

/// Tells of an operation that was inserted.
fn begun(unit: &mut Unit, Asked { operation: new, context }: &Asked) -> Result<Created, StoreError> {
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

/// Everything of new operations in one call, for each is a turn of the connection's thread: the operations, their
/// tasks, the steps of those, every artifact that they are made of, so that "what ran this component" is one query, and
/// what policy decided. Nothing of one whose key is there already, or whose version cannot be used.
const INSERT: &str = "
INSERT INTO operations (operation_id, operation_type, version, org_id, project_id, requested_by_user_id,
    target_selector, idempotency_key, request_digest, correlation_id, trigger_source, linked_node_id, sources,
    inputs, plan_digest, total_steps, created_at, total_nodes, priority, deadline, max_parallel_nodes,
    failure_budget, max_concurrency_global, max_concurrency_tenant, max_concurrency_project, requires,
    linked_allocation_id, trace_parent, status)
SELECT value ->> 'operation_id', value ->> 'operation_type', value ->> 'version', value ->> 'org_id',
    value ->> 'project_id', value ->> 'requested_by', value ->> 'target_selector', value ->> 'idempotency_key',
    value ->> 'request_digest', value ->> 'correlation_id', value ->> 'trigger_source', value ->> 'linked_node_id',
    value ->> 'sources', value ->> 'inputs', value ->> 'plan_digest', value ->> 'total_steps', value ->> 'created_at',
    value ->> 'total_nodes', value ->> 'priority', value ->> 'deadline', value ->> 'max_parallel_nodes',
    value ->> 'failure_budget', value ->> 'max_concurrency_global', value ->> 'max_concurrency_tenant',
    value ->> 'max_concurrency_project', value ->> 'requires', value ->> 'linked_allocation_id',
    value ->> 'trace_parent', 'queued'
FROM json_each($1)
WHERE NOT EXISTS (
    SELECT 1 FROM operation_definition_versions
    WHERE operation_type = value ->> 'operation_type' AND version = value ->> 'version'
        AND status IN ('draft', 'retired'))
ON CONFLICT (project_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
RETURNING operation_id;
INSERT INTO tasks (task_id, operation_id, node_id, status, org_id, priority)
SELECT task.value ->> 0, operation_id, task.value ->> 1, 'ready', org_id, priority
FROM json_each($1) AS new CROSS JOIN operations ON operation_id = new.value ->> 'operation_id'
    CROSS JOIN json_each(new.value, '$.tasks') AS task;
INSERT INTO operation_steps (task_id, operation_id, step_index, step_id, kind, component, needs)
SELECT task.value ->> 0, operation_id, step.key, step.value ->> 'id', step.value ->> 'kind',
    step.value ->> 'component', step.value -> 'needs'
FROM json_each($1) AS new CROSS JOIN operations ON operation_id = new.value ->> 'operation_id'
    CROSS JOIN json_each(new.value, '$.tasks') AS task CROSS JOIN json_each(new.value, '$.steps') AS step;
INSERT INTO operation_artifacts (operation_id, role, reference)
SELECT operation_id, artifact.key, artifact.value
FROM json_each($1) AS new CROSS JOIN operations ON operation_id = new.value ->> 'operation_id'
    CROSS JOIN json_each(new.value, '$.artifacts') AS artifact;
INSERT INTO operation_decisions (operation_id, document)
SELECT operation_id, new.value ->> 'decision'
FROM json_each($1) AS new CROSS JOIN operations ON operation_id = new.value ->> 'operation_id'
WHERE new.value ->> 'decision' IS NOT NULL";

/// Answers which are new.
async fn insert<'r>(
    unit: &mut Unit,
    rows: impl Iterator<Item = &'r NewRow<'r>>,
) -> Result<HashSet<String>, StoreError> {
    let inserted: Vec<(String,)> = sqlx::query_as(INSERT)
        .bind(row::text(WHAT, &rows.collect::<Vec<_>>())?)
        .fetch_all(&mut unit.connection)
        .await
        .map_err(unavailable(Create::VERB))?;
    Ok(inserted.into_iter().map(|(id,)| id).collect())
}

/// Why it was not inserted: the key is known, or the version cannot be used.
async fn known(unit: &mut Unit, new: &NewOperation) -> Result<Created, StoreError> {
    let key = new.idempotency_key.as_deref().unwrap_or_default();
    let Some(known) = read::by_key(&mut unit.connection, &new.project.project_id, key).await? else {
        insist_on_usable(unit, &new.plan.graph.operation_type, &new.plan.graph.version).await?;
        return Err(StoreError::not_found("operation with idempotency key", key));
    };
    if known.request_digest == new.request_digest {
        return Ok(Created::Repeated(known));
    }
    Err(key_reused(key, &known))
}

/// An operation as its statement reads it. What the tables hold as a document is a text here too.
#[derive(Serialize)]
struct NewRow<'n> {
    operation_id: String,
    operation_type: &'n str,
    version: &'n str,
    org_id: &'n str,
    project_id: &'n str,
    requested_by: String,
    target_selector: String,
    idempotency_key: Option<&'n str>,
    request_digest: String,
    correlation_id: &'n str,
    trigger_source: &'n str,
    linked_node_id: String,
    sources: String,
    inputs: String,
    plan_digest: String,
    total_steps: u32,
    created_at: i64,
    total_nodes: u32,
    priority: u8,
    deadline: Option<i64>,
    max_parallel_nodes: Option<u32>,
    failure_budget: Option<u32>,
    max_concurrency_global: Option<u32>,
    max_concurrency_tenant: Option<u32>,
    max_concurrency_project: Option<u32>,
    requires: Option<String>,
    linked_allocation_id: Option<&'n str>,
    trace_parent: Option<&'n str>,
    /// Ids of tasks and their nodes.
    tasks: Vec<(String, String)>,
    steps: Vec<StepColumns<'n>>,
    artifacts: BTreeMap<String, &'n Reference>,
    decision: Option<String>,
}

#[derive(Serialize)]
struct StepColumns<'n> {
    id: &'n StepId,
    kind: &'n StepKind,
    component: &'n Reference,
    needs: &'n BTreeSet<StepId>,
}

impl<'n> NewRow<'n> {
    fn of(Asked { operation: new, context }: &'n Asked) -> Result<Self, StoreError> {
        let graph = &new.plan.graph;
        Ok(Self {
            operation_id: new.id.to_string(),
            operation_type: graph.operation_type.as_str(),
            version: graph.version.as_str(),
            org_id: new.project.org_id.as_str(),
            project_id: new.project.project_id.as_str(),
            requested_by: context.actor.to_string(),
            target_selector: row::text(WHAT, &new.target_selector)?,
            idempotency_key: new.idempotency_key.as_deref(),
            request_digest: new.request_digest.to_string(),
            correlation_id: &context.correlation_id,
            trigger_source: new.trigger_source.name(),
            linked_node_id: first_node(new)?.to_string(),
            sources: row::text(WHAT, &graph.sources)?,
            inputs: row::text(WHAT, &new.plan.inputs)?,
            plan_digest: new.plan_digest.to_string(),
            total_steps: total_steps(&new.plan)?,
            created_at: context.at.as_millisecond(),
            total_nodes: total_nodes(new)?,
            priority: new.terms.priority,
            deadline: new.terms.deadline.map(Timestamp::as_millisecond),
            max_parallel_nodes: new.terms.max_parallel_nodes,
            failure_budget: new.terms.failure_budget,
            max_concurrency_global: new.terms.max_concurrency.global,
            max_concurrency_tenant: new.terms.max_concurrency.tenant,
            max_concurrency_project: new.terms.max_concurrency.project,
            requires: requires(new)?,
            linked_allocation_id: new.linked_allocation_id.as_deref(),
            trace_parent: new.trace_parent.as_deref(),
            tasks: new.tasks.iter().map(|task| (task.id.to_string(), task.node_id.to_string())).collect(),
            steps: steps(&new.plan),
            artifacts: artifacts(&new.plan),
            decision: new.decision.as_ref().map(|decision| row::text("decision", decision)).transpose()?,
        })
    }
}

fn steps(plan: &Plan) -> Vec<StepColumns<'_>> {
    let columns = plan.graph.steps.iter().map(|step| StepColumns {
        id: &step.id,
        kind: &step.kind,
        component: &step.component,
        needs: &step.needs,
    });
    columns.collect()
}
