//! From a request to a plan, and to an operation.

use std::sync::Arc;

use fettle_model::{
    canonical::{self, NotCanonical},
    definition::Definition,
    digest::Digest,
    name::{OperationType, Version},
    plan::{self, Plan, PlanError},
    violation::{Violation, Violations},
};
use fettle_store::{
    StoreError,
    context::Context,
    definition::DefinitionVersion,
    id::{NodeId, OperationId, TaskId},
    node::Node,
    operation::{Created, NewOperation},
    project::Project,
};
use serde_json::{Value, json};

use crate::{clock::NoRandomness, state::State};

/// Longest idempotency key and correlation id, in characters.
const KEY_LENGTH: usize = 200;

/// What somebody asks for.
#[derive(Clone, Debug)]
pub(crate) struct Submission {
    /// Name of the operation type.
    pub(crate) operation_type: String,
    /// Version of it.
    pub(crate) version: String,
    /// The inputs.
    pub(crate) inputs: Value,
    /// Name or id of the node.
    pub(crate) node: String,
    /// Makes a repeated request the same request.
    pub(crate) idempotency_key: Option<String>,
}

/// Why there is no operation.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SubmissionError {
    /// Something is wrong with the request; all of it.
    #[error("the request is not valid:\n{0}")]
    Invalid(Violations),
    /// A registered definition cannot be planned any more.
    #[error("the registered definition cannot be planned")]
    Plan(#[source] Box<PlanError>),
    /// Something has no canonical form.
    #[error("the request cannot be hashed")]
    NotCanonical(#[source] NotCanonical),
    /// The store refused.
    #[error("the store refused the operation")]
    Store(#[source] StoreError),
    /// No random bytes for an id.
    #[error("no id can be made")]
    Random(#[source] NoRandomness),
}

impl From<StoreError> for SubmissionError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A plan and the node it is for.
pub(crate) struct Planned {
    pub(crate) plan: Arc<Plan>,
    pub(crate) digest: Digest,
    pub(crate) node_id: NodeId,
}

impl Submission {
    fn target_selector(&self) -> Value {
        json!({ "node": self.node })
    }

    /// What makes two requests the same.
    fn digest(&self) -> Result<Digest, SubmissionError> {
        let request = json!({
            "operation_type": self.operation_type,
            "version": self.version,
            "inputs": self.inputs,
            "target_selector": self.target_selector(),
        });
        canonical::digest(&request).map_err(SubmissionError::NotCanonical)
    }
}

/// Whether a text can be a key or a correlation id: visible ASCII, so that logs and headers hold it.
pub(crate) fn is_key(text: &str) -> bool {
    (1..=KEY_LENGTH).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Computes the plan, or says everything that is wrong with the request.
pub(crate) async fn plan(
    state: &State,
    project: &Project,
    submission: &Submission,
) -> Result<Planned, SubmissionError> {
    let mut found = Vec::new();
    if submission.idempotency_key.as_deref().is_some_and(|key| !is_key(key)) {
        let message = format!("write 1 to {KEY_LENGTH} visible ASCII characters");
        found.push(Violation::new("/idempotency_key", message));
    }
    let registered = find_definition(state, submission, &mut found).await?;
    let node = find_node(state, project, &submission.node, &mut found).await?;
    let plan = match &registered {
        Some(registered) => {
            if let Some(node) = &node {
                check_requirements(&registered.definition, node, &mut found);
            }
            make(registered, submission, &mut found)?
        }
        None => None,
    };
    match (plan, node) {
        (Some(plan), Some(node)) if found.is_empty() => {
            let digest = plan.digest().map_err(SubmissionError::NotCanonical)?;
            Ok(Planned { plan: Arc::new(plan), digest, node_id: node.id })
        }
        _ => Err(SubmissionError::Invalid(Violations(found))),
    }
}

/// Creates the operation, or answers the one that was created with the same key.
pub(crate) async fn submit(
    state: &State,
    project: Project,
    submission: Submission,
    context: Context,
) -> Result<Created, SubmissionError> {
    let request_digest = submission.digest()?;
    if let Some(key) = &submission.idempotency_key
        && let Some(known) = state.store.operation_by_key(&project.project_id, key).await?
        && known.request_digest == request_digest
    {
        // Whatever has changed since: the first answer stands.
        return Ok(Created::Repeated(known));
    }
    let planned = plan(state, &project, &submission).await?;
    let ulid = || state.ulid().map_err(SubmissionError::Random);
    let operation = NewOperation {
        id: OperationId::new(ulid()?),
        task_id: TaskId::new(ulid()?),
        project,
        target_selector: submission.target_selector(),
        node_id: planned.node_id,
        idempotency_key: submission.idempotency_key,
        request_digest,
        plan: planned.plan,
        plan_digest: planned.digest,
    };
    Ok(state.store.create_operation(operation, context).await?)
}

async fn find_definition(
    state: &State,
    submission: &Submission,
    found: &mut Vec<Violation>,
) -> Result<Option<Arc<DefinitionVersion>>, StoreError> {
    let mut wrong = |pointer: &str, error: String| found.push(Violation::new(pointer, error));
    let operation_type = submission.operation_type.parse::<OperationType>();
    let version = submission.version.parse::<Version>();
    if let Err(error) = &operation_type {
        wrong("/operation_type", error.to_string());
    }
    if let Err(error) = &version {
        wrong("/version", error.to_string());
    }
    let (Ok(operation_type), Ok(version)) = (operation_type, version) else { return Ok(None) };
    let registered = state.definitions.get(state, &operation_type, &version).await?;
    if let Some(status) = registered.as_ref().map(|found| found.status).filter(|status| !status.is_usable()) {
        let message = format!(
            "{operation_type}@{version} is {}, and operations are made of published versions only; `fettle definition \
             list` shows them",
            status.name()
        );
        wrong("/version", message);
        return Ok(None);
    }
    if registered.is_none() {
        wrong(
            "/operation_type",
            format!("{operation_type}@{version} is not registered; `fettle definition list` shows what is"),
        );
    }
    Ok(registered)
}

/// The node, if the project may use it. One of another project is as unknown as one that is not there.
async fn find_node(
    state: &State,
    project: &Project,
    selector: &str,
    found: &mut Vec<Violation>,
) -> Result<Option<Node>, StoreError> {
    let node = match state.store.node_by_name(selector).await? {
        Some(node) => Some(node),
        None => match selector.parse::<NodeId>() {
            Ok(id) => state.store.node(id).await?,
            Err(_) => None,
        },
    };
    let node = node.filter(|node| node.is_for(project));
    if node.is_none() {
        found.push(Violation::new(
            "/target_selector/node",
            format!(
                "there is no node `{selector}` that project `{}` may use; `fettle node list` shows those it may",
                project.project_id
            ),
        ));
    }
    Ok(node)
}

fn check_requirements(definition: &Definition, node: &Node, found: &mut Vec<Violation>) {
    for (key, accepted) in &definition.requires.capabilities {
        let actual = node.facts.capabilities.get(key);
        if !actual.is_some_and(|actual| accepted.contains(actual)) {
            let accepted = accepted.iter().map(String::as_str).collect::<Vec<_>>().join(" or ");
            let actual = actual.map_or("unknown", String::as_str);
            found.push(Violation::new(
                "/target_selector/node",
                format!(
                    "node `{}` has {key} {actual}, and {}@{} needs {accepted}; choose another node",
                    node.facts.name, definition.operation_type, definition.version
                ),
            ));
        }
    }
}

fn make(
    registered: &DefinitionVersion,
    submission: &Submission,
    found: &mut Vec<Violation>,
) -> Result<Option<Plan>, SubmissionError> {
    let inputs = submission.inputs.clone();
    match plan::plan(registered.sources.clone(), &registered.definition, &registered.catalog, inputs) {
        Ok(plan) => Ok(Some(plan)),
        Err(PlanError::Inputs { violations, .. }) => {
            found.extend(violations.0.into_iter().map(|violation| Violation {
                pointer: format!("/inputs{}", violation.pointer),
                message: violation.message,
            }));
            Ok(None)
        }
        Err(PlanError::Artifact { pointer, reference, operation, allowed }) => {
            let message = format!("`{reference}` is not allowed: {operation} takes artifacts of {allowed} only");
            found.push(Violation::new(format!("/inputs{pointer}"), message));
            Ok(None)
        }
        Err(error @ (PlanError::UnknownKind { .. } | PlanError::Graph(_) | PlanError::Unsupported { .. })) => {
            Err(SubmissionError::Plan(Box::new(error)))
        }
    }
}
