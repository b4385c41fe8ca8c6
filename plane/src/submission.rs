//! From a request to a plan, and to an operation.

use std::{sync::Arc, time::Duration};

use fettle_model::{
    canonical::{self, NotCanonical},
    definition::{BackendType, Definition, Requirements},
    digest::Digest,
    name::{OperationType, Version},
    overlay::chain::Concurrency,
    plan::{Plan, PlanError},
    violation::{Violation, Violations},
};
use fettle_store::{
    StoreError,
    context::Context,
    id::{OperationId, TaskId},
    node::Node,
    operation::{self, Created, DEFAULT_PRIORITY, NewOperation, NewTask, Terms, TriggerSource},
    project::Project,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    clock::NoRandomness,
    policy::{self, Admitted, Asked, EffectiveLimits},
    registration::Usable,
    state::State,
    target::{self, TargetSelector},
};

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
    /// Which nodes.
    pub(crate) target: TargetSelector,
    /// 0 to 9.
    pub(crate) priority: u8,
    /// The longest that it may take.
    pub(crate) timeout_seconds: Option<u32>,
    /// How many nodes may work on it at once.
    pub(crate) max_parallel_nodes: Option<u32>,
    /// How many nodes may fail before no further node is started.
    pub(crate) failure_budget: Option<u32>,
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
    /// Policy denies it; all the rules that do.
    #[error("policy denies the request:\n{0}")]
    Denied(Violations),
}

impl From<StoreError> for SubmissionError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A plan and the nodes it is for.
pub(crate) struct Planned {
    pub(crate) plan: Arc<Plan>,
    pub(crate) digest: Digest,
    /// At least one.
    pub(crate) nodes: Vec<Node>,
    /// How it is carried out, but for what the request says of itself.
    pub(crate) requires: Requirements,
    /// The longest that the definition lets it take.
    pub(crate) timeout: Option<Duration>,
}

impl Submission {
    fn target_selector(&self) -> Value {
        serde_json::to_value(&self.target).unwrap_or_default()
    }

    fn allocation(&self) -> Option<String> {
        if let TargetSelector::Allocation(name) = &self.target { Some(name.clone()) } else { None }
    }

    /// What makes two requests the same.
    fn digest(&self) -> Result<Digest, SubmissionError> {
        let mut request = json!({
            "operation_type": self.operation_type,
            "version": self.version,
            "inputs": self.inputs,
            "target_selector": self.target_selector(),
        });
        // What is not said is left out, so that a key that was used before these fields existed is still known.
        let said = [
            ("priority", Some(u32::from(self.priority)).filter(|_| self.priority != DEFAULT_PRIORITY)),
            ("timeout_seconds", self.timeout_seconds),
            ("max_parallel_nodes", self.max_parallel_nodes),
            ("failure_budget", self.failure_budget),
        ];
        for (field, value) in said {
            if let (Some(value), Some(fields)) = (value, request.as_object_mut()) {
                fields.insert(field.to_owned(), value.into());
            }
        }
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
    let nodes = target::resolve(state, project, &submission.target, &mut found).await?;
    let Some(registered) = registered else { return Err(SubmissionError::Invalid(Violations(found))) };
    let definition = &registered.definition;
    refuse_other_backends(definition, &mut found);
    let operation = format!("{}@{}", definition.operation_type, definition.version);
    target::check_requirements(&operation, &definition.requires, &submission.target, &nodes, &mut found);
    let Some((plan, digest)) = make(&registered, submission.inputs.clone(), &mut found)?.filter(|_| found.is_empty())
    else {
        return Err(SubmissionError::Invalid(Violations(found)));
    };
    let (requires, timeout) = (definition.requires.clone(), definition.timeout);
    Ok(Planned { plan: Arc::new(plan), digest, nodes, requires, timeout })
}

/// A definition of another backend can be registered; nothing executes it yet.
fn refuse_other_backends(definition: &Definition, found: &mut Vec<Violation>) {
    if definition.backend_type != BackendType::NodeAgent {
        let message = format!(
            "{}@{} is for backend `{}`, and no backend of that type is configured; choose an operation of `node_agent`",
            definition.operation_type,
            definition.version,
            definition.backend_type.name()
        );
        found.push(Violation::new("/operation_type", message));
    }
}

/// When something must be over that may take as long as request, policy and definition all allow.
pub(crate) fn deadline(state: &State, seconds: [Option<u32>; 2], definition: Option<Duration>) -> Option<Timestamp> {
    let said = seconds.into_iter().flatten().map(|seconds| Duration::from_secs(u64::from(seconds)));
    said.chain(definition).min().map(|timeout| state.after(timeout))
}

/// How the operation is carried out: what the request says, within what the definition
/// and policy say.
fn terms(state: &State, submission: &Submission, planned: &Planned, limits: EffectiveLimits) -> Terms {
    let Concurrency { global, tenant, project } = limits.max_concurrency;
    Terms {
        priority: submission.priority,
        deadline: deadline(state, [submission.timeout_seconds, limits.timeout_seconds], planned.timeout),
        max_parallel_nodes: submission.max_parallel_nodes,
        failure_budget: submission.failure_budget,
        max_concurrency: operation::Concurrency { global, tenant, project },
        requires: planned.requires.clone(),
    }
}

/// How many nodes may go at once.
fn at_once(submission: &Submission) -> usize {
    submission.max_parallel_nodes.map_or(usize::MAX, |most| most as usize)
}

/// Where not all nodes go at once, those go first that have to fetch the least.
fn in_order(state: &State, submission: &Submission, mut planned: Planned) -> Planned {
    if at_once(submission) < planned.nodes.len() {
        state.holdings.prefer(&mut planned.nodes, &planned.plan);
    }
    planned
}

/// A task for each node. Their ids are in the order of the nodes, for they are woken in the order of the ids.
fn tasks(state: &State, nodes: &[Node]) -> Result<Vec<NewTask>, SubmissionError> {
    let ids: Result<Vec<_>, _> = nodes.iter().map(|_| state.ulid().map(TaskId::new)).collect();
    let mut ids = ids.map_err(SubmissionError::Random)?;
    ids.sort_unstable();
    Ok(ids.into_iter().zip(nodes).map(|(id, node)| NewTask { id, node_id: node.id }).collect())
}

/// Creates the operation, or answers the one that was created with the same key.
pub(crate) async fn submit(
    state: &State,
    project: Project,
    submission: Submission,
    context: Context,
) -> Result<Created, SubmissionError> {
    let request_digest = submission.digest()?;
    // Whatever has changed since a key was used: the first answer stands.
    let first = async || repeated(state, &project, &submission, request_digest).await;
    let planned = match plan(state, &project, &submission).await {
        Ok(planned) => planned,
        Err(error) => return first().await?.ok_or(error),
    };
    let planned = in_order(state, &submission, planned);
    let asked = Asked::submission(&project, &submission, &planned, &context);
    let decision = policy::decide(state, &asked).await?;
    if !decision.allowed
        && let Some(first) = first().await?
    {
        return Ok(first);
    }
    let Admitted { limits, record } = policy::conclude(state, &asked, decision).await?;
    let operation = NewOperation {
        id: OperationId::new(state.ulid().map_err(SubmissionError::Random)?),
        tasks: tasks(state, &planned.nodes)?,
        project,
        target_selector: submission.target_selector(),
        trigger_source: TriggerSource::TenantRequest,
        linked_allocation_id: submission.allocation(),
        terms: terms(state, &submission, &planned, limits),
        idempotency_key: submission.idempotency_key.clone(),
        request_digest,
        plan: planned.plan,
        plan_digest: planned.digest,
        trace_parent: fettle_telemetry::span::current().map(|place| place.to_string()),
        decision: Some(record),
    };
    let (plan, begin) = (Arc::clone(&operation.plan), planned.nodes.len().min(at_once(&submission)));
    let created = state.store.create_operation(operation, context).await?;
    if matches!(created, Created::New(_)) {
        state.holdings.meant_for(&planned.nodes[..begin], &plan);
    }
    Ok(created)
}

/// The operation that was created with the same key and the same request.
async fn repeated(
    state: &State,
    project: &Project,
    submission: &Submission,
    request_digest: Digest,
) -> Result<Option<Created>, SubmissionError> {
    let Some(key) = &submission.idempotency_key else { return Ok(None) };
    let known = state.store.operation_by_key(&project.project_id, key).await?;
    Ok(known.filter(|known| known.request_digest == request_digest).map(Created::Repeated))
}

async fn find_definition(
    state: &State,
    submission: &Submission,
    found: &mut Vec<Violation>,
) -> Result<Option<Arc<Usable>>, StoreError> {
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

/// The plan of an operation with these inputs, and its digest. What is wrong with them is added to `found`.
pub(crate) fn make(
    registered: &Usable,
    inputs: Value,
    found: &mut Vec<Violation>,
) -> Result<Option<(Plan, Digest)>, SubmissionError> {
    match registered.plan(inputs) {
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
        Err(
            error @ (PlanError::UnknownKind { .. }
            | PlanError::Graph(_)
            | PlanError::Unsupported { .. }
            | PlanError::NotCanonical(_)),
        ) => Err(SubmissionError::Plan(Box::new(error))),
    }
}
