//! Creating operations.

use std::collections::{BTreeMap, HashSet};

use fettle_model::{
    name::{StepId, StepKind},
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
use sqlx::AssertSqlSafe;

use crate::{
    audit,
    definition::insist_on_usable,
    lane::Together,
    list::{self, Text},
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
            let inserted = insert(unit, &rows.iter().flatten().collect::<Vec<_>>()).await?;
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
///
/// The columns of operations are values of their own, and what there may be several of is a document: SQLite would read
/// a document of whole operations anew for each part of it.
/// Those come last, for they have numbers: SQLite finds a place with a number by looking through all of them.
fn insert_statement(operations: usize) -> String {
    let places = |columns: usize| {
        let row = format!("({})", vec!["?"; columns].join(", "));
        vec![row; operations].join(", ")
    };
    let (new, decisions) = (places(OPERATION), places(DECISION));
    let first = (OPERATION + DECISION) * operations + 1;
    let [tasks, steps, artifacts, ids] = [first, first + 1, first + 2, first + 3].map(|number| format!("${number}"));
    format!(
        "INSERT INTO operations (operation_id, operation_type, version, org_id, project_id, requested_by_user_id,
    target_selector, idempotency_key, request_digest, correlation_id, trigger_source, linked_node_id, sources,
    inputs, plan_digest, total_steps, created_at, total_nodes, priority, deadline, max_parallel_nodes,
    failure_budget, max_concurrency_global, max_concurrency_tenant, max_concurrency_project, requires,
    linked_allocation_id, trace_parent, status)
SELECT *, 'queued' FROM (VALUES {new})
WHERE NOT EXISTS (
    SELECT 1 FROM operation_definition_versions
    WHERE operation_type = column2 AND version = column3 AND status IN ('draft', 'retired'))
ON CONFLICT (project_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING;
INSERT INTO tasks (task_id, operation_id, node_id, status, org_id, priority)
SELECT task.value ->> 0, operation_id, task.value ->> 2, 'ready', org_id, priority
FROM json_each({tasks}) AS task CROSS JOIN operations ON operation_id = task.value ->> 1;
INSERT INTO operation_steps (task_id, operation_id, step_index, step_id, kind, component, needs)
SELECT step.value ->> 0, operation_id, step.value ->> 2, step.value ->> 3, step.value ->> 4, step.value ->> 5,
    step.value ->> 6
FROM json_each({steps}) AS step CROSS JOIN operations ON operation_id = step.value ->> 1;
INSERT INTO operation_artifacts (operation_id, role, reference)
SELECT operation_id, artifact.value ->> 1, artifact.value ->> 2
FROM json_each({artifacts}) AS artifact CROSS JOIN operations ON operation_id = artifact.value ->> 0;
INSERT INTO operation_decisions (operation_id, document)
SELECT operation_id, column2 FROM (VALUES {decisions}) CROSS JOIN operations ON operation_id = column1
WHERE column2 IS NOT NULL;
SELECT json_group_array(operation_id) FROM json_each({ids}) AS new CROSS JOIN operations ON operation_id = new.value"
    )
}

/// Columns of an operation in it.
const OPERATION: usize = 28;

/// Columns of a decision in it.
const DECISION: usize = 2;

/// Answers which are new.
async fn insert(unit: &mut Unit, rows: &[&NewRow<'_>]) -> Result<HashSet<String>, StoreError> {
    if rows.is_empty() {
        return Ok(HashSet::new());
    }
    let mut statement = sqlx::query_scalar(AssertSqlSafe(insert_statement(rows.len())));
    for row in rows {
        statement = row.bind(statement);
    }
    for row in rows {
        statement = statement.bind(&row.operation_id).bind(row.decision.as_deref());
    }
    let ids: Vec<&str> = rows.iter().map(|row| row.operation_id.as_str()).collect();
    let statement = statement
        .bind(row::text(WHAT, &rows.iter().flat_map(|row| row.tasks()).collect::<Vec<_>>())?)
        .bind(row::text(WHAT, &rows.iter().flat_map(|row| row.steps()).collect::<Vec<_>>())?)
        .bind(row::text(WHAT, &rows.iter().flat_map(|row| row.artifacts()).collect::<Vec<_>>())?)
        .bind(row::text(WHAT, &ids)?);
    let inserted: Vec<String> = list::read(&mut unit.connection, (Create::VERB, WHAT), statement).await?;
    Ok(inserted.into_iter().collect())
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
struct NewRow<'n> {
    asked: &'n Asked,
    operation_id: String,
    requested_by: String,
    target_selector: String,
    request_digest: String,
    linked_node_id: String,
    sources: String,
    inputs: String,
    plan_digest: String,
    total_steps: u32,
    total_nodes: u32,
    requires: Option<String>,
    /// Ids of tasks and their nodes.
    tasks: Vec<(String, String)>,
    /// Of each step, what it needs.
    needs: Vec<String>,
    artifacts: BTreeMap<String, &'n Reference>,
    decision: Option<String>,
}

impl<'n> NewRow<'n> {
    fn of(asked: &'n Asked) -> Result<Self, StoreError> {
        let Asked { operation: new, context } = asked;
        let graph = &new.plan.graph;
        Ok(Self {
            asked,
            operation_id: new.id.to_string(),
            requested_by: context.actor.to_string(),
            target_selector: row::text(WHAT, &new.target_selector)?,
            request_digest: new.request_digest.to_string(),
            linked_node_id: first_node(new)?.to_string(),
            sources: row::text(WHAT, &graph.sources)?,
            inputs: row::text(WHAT, &new.plan.inputs)?,
            plan_digest: new.plan_digest.to_string(),
            total_steps: total_steps(&new.plan)?,
            total_nodes: total_nodes(new)?,
            requires: requires(new)?,
            tasks: new.tasks.iter().map(|task| (task.id.to_string(), task.node_id.to_string())).collect(),
            needs: graph.steps.iter().map(|step| row::text(WHAT, &step.needs)).collect::<Result<_, _>>()?,
            artifacts: artifacts(&new.plan),
            decision: new.decision.as_ref().map(|decision| row::text("decision", decision)).transpose()?,
        })
    }

    /// Adds its columns, in their order.
    fn bind<'q>(&'q self, statement: Text<'q>) -> Text<'q> {
        let Asked { operation: new, context } = self.asked;
        let (graph, terms) = (&new.plan.graph, &new.terms);
        statement
            .bind(&self.operation_id)
            .bind(graph.operation_type.as_str())
            .bind(graph.version.as_str())
            .bind(new.project.org_id.as_str())
            .bind(new.project.project_id.as_str())
            .bind(&self.requested_by)
            .bind(&self.target_selector)
            .bind(new.idempotency_key.as_deref())
            .bind(&self.request_digest)
            .bind(&context.correlation_id)
            .bind(new.trigger_source.name())
            .bind(&self.linked_node_id)
            .bind(&self.sources)
            .bind(&self.inputs)
            .bind(&self.plan_digest)
            .bind(self.total_steps)
            .bind(context.at.as_millisecond())
            .bind(self.total_nodes)
            .bind(terms.priority)
            .bind(terms.deadline.map(Timestamp::as_millisecond))
            .bind(terms.max_parallel_nodes)
            .bind(terms.failure_budget)
            .bind(terms.max_concurrency.global)
            .bind(terms.max_concurrency.tenant)
            .bind(terms.max_concurrency.project)
            .bind(self.requires.as_deref())
            .bind(new.linked_allocation_id.as_deref())
            .bind(new.trace_parent.as_deref())
    }

    fn tasks(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.tasks.iter().map(|(task_id, node_id)| (task_id.as_str(), self.operation_id.as_str(), node_id.as_str()))
    }

    fn steps(&self) -> impl Iterator<Item = StepColumns<'_>> {
        let steps = self.asked.operation.plan.graph.steps.iter().zip(&self.needs).enumerate();
        self.tasks.iter().flat_map(move |(task_id, _)| {
            let (task_id, operation_id) = (task_id.as_str(), self.operation_id.as_str());
            steps.clone().map(move |(index, (step, needs))| {
                (task_id, operation_id, index, &step.id, &step.kind, &step.component, needs.as_str())
            })
        })
    }

    fn artifacts(&self) -> impl Iterator<Item = (&str, &str, &Reference)> {
        self.artifacts.iter().map(|(role, reference)| (self.operation_id.as_str(), role.as_str(), *reference))
    }
}

/// The task, the operation, its place, its name, its kind, its component, what it needs.
type StepColumns<'n> = (&'n str, &'n str, usize, &'n StepId, &'n StepKind, &'n Reference, &'n str);
