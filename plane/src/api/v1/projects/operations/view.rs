//! Operations and steps as they are shown.

use fettle_model::{failure::Failure, operation::StepOutcome, settlement::Settlement};
use fettle_store::{
    audit::DeniedCall,
    operation::{Ending, NodeTask, Operation, OperationState, Step, StepState},
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::waiting::NodeTaskView;
use crate::deprecation::{Deprecation, Warning};

/// An operation.
#[derive(Serialize, ToSchema)]
pub(crate) struct OperationView {
    /// Its id.
    operation_id: String,
    /// Its type.
    operation_type: String,
    /// The version of the type.
    version: String,
    /// The organisation that owns it.
    org_id: String,
    /// The project that owns it.
    project_id: String,
    /// `kind:id:name` of who asked for it.
    requested_by_user_id: String,
    /// What was asked for.
    target_selector: Value,
    /// The node it is for, when it is for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    linked_node_id: Option<String>,
    /// The allocation it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    linked_allocation_id: Option<String>,
    /// How many nodes it is for.
    total_nodes: u32,
    /// 1 for the first; grows with each retry.
    run: u32,
    /// 0 to 9.
    priority: u8,
    /// When it must be over.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<String>,
    /// How many nodes may work on it at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_parallel_nodes: Option<u32>,
    /// How many nodes may fail before no further node is started.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_budget: Option<u32>,
    /// The key it was requested with.
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    /// Follows it everywhere.
    correlation_id: String,
    /// What caused it.
    trigger_source: String,
    /// `queued`, `running`, `succeeded`, `failed` or `canceled`.
    status: String,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<FailureView>,
    /// The signed documents it is made from.
    sources: Value,
    /// The inputs; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    inputs: Option<Value>,
    /// Digest of the plan.
    plan_digest: String,
    /// How many steps.
    total_steps: u32,
    /// RFC 3339.
    created_at: String,
    /// When a node took it.
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<String>,
    /// When somebody asked to cancel it.
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel_requested_at: Option<String>,
    /// Its nodes, by name; only where one operation is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<Vec<NodeTaskView>>,
    /// Its steps, node after node in the order of the plan; only where one operation is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<Vec<StepView>>,
    /// Calls that its steps were denied, the first 100; only where one operation is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    denials: Option<Vec<DenialView>>,
    /// What whoever submits it should know; only in the answer to that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Warning>,
}

/// A capability call of a step that its host refused.
#[derive(Serialize, ToSchema)]
pub(super) struct DenialView {
    /// The step.
    step_id: String,
    /// 1 for the first.
    attempt: u32,
    /// Digest of the component that called.
    component: String,
    /// RFC 3339, by the node's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    /// The capability that was called.
    capability: String,
    /// The function of it.
    function: String,
    /// The rule that refused.
    rule: String,
    /// What the rule allows.
    allows: Vec<String>,
    /// What was wanted.
    subject: String,
    /// Denied calls of the attempt before this one that were not recorded.
    dropped: u64,
    /// The line that would allow it: `document`, `at`, `line`.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<Value>,
}

/// A failure.
#[derive(Serialize, ToSchema)]
struct FailureView {
    /// What may be done about it.
    class: Value,
    /// Stable and dotted.
    code: String,
    /// One sentence.
    message: String,
}

/// A step.
#[derive(Serialize, ToSchema)]
pub(super) struct StepView {
    /// The node.
    node_id: String,
    /// Its name.
    step_id: String,
    /// Its place in the plan, from 0.
    step_index: u32,
    /// Its kind.
    kind: String,
    /// The component that implements it.
    component: String,
    /// Steps before it.
    needs: Vec<String>,
    /// `pending`, `running`, `succeeded`, `failed`, `skipped` or `canceled`.
    status: String,
    /// The latest attempt; 0 when none was started.
    attempt_number: u32,
    /// How far it is, 0 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    percent: Option<u8>,
    /// What it is doing.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Its last log line.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_log: Option<String>,
    /// When the latest attempt started, by the node's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    /// When it ended, by the node's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<String>,
    /// Milliseconds of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    /// False when there was nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<bool>,
    /// What it put out.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<FailureView>,
    /// The step before it that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    because_of: Option<String>,
    /// What became of an attempt whose end nobody saw, and how that was found out.
    #[serde(skip_serializing_if = "Option::is_none")]
    settlement: Option<SettlementView>,
}

/// What became of a step whose end nobody saw.
#[derive(Serialize, ToSchema)]
pub(crate) struct SettlementView {
    /// Why nobody saw it: `host_stopped`, `step_stopped`, `step_unsure`, `canceled`, `later_failure` or `inquiry`.
    cause: &'static str,
    /// What is true: `not_started`, `finished`, `not_done`, `undone` or `unknown`.
    finding: &'static str,
    /// Whether a person or a probe has to say what is true before the step may run again.
    needs_person: bool,
    /// How often the step's probe was asked.
    probes: u32,
    /// The person who decided, where no probe did.
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_by: Option<String>,
    /// What was found, and what to do.
    message: String,
}

impl From<Settlement> for SettlementView {
    fn from(settlement: Settlement) -> Self {
        let Settlement { cause, finding, needs_person, probes, decided_by, message } = settlement;
        Self { cause: cause.name(), finding: finding.name(), needs_person, probes, decided_by, message }
    }
}

fn text(at: Option<Timestamp>) -> Option<String> {
    at.map(|at| at.to_string())
}

impl From<Failure> for FailureView {
    fn from(failure: Failure) -> Self {
        Self {
            class: serde_json::to_value(failure.class).unwrap_or_default(),
            code: failure.code,
            message: failure.message,
        }
    }
}

impl OperationView {
    /// An operation without its nodes and steps.
    pub(super) fn brief(operation: Operation) -> Self {
        let status = operation.state.status().to_string();
        let (started_at, finished_at, failure) = match operation.state {
            OperationState::Queued => (None, None, None),
            OperationState::Running { started_at } => (Some(started_at), None, None),
            OperationState::Over { started_at, finished_at, ending } => {
                let failure = if let Ending::Failed(failure) = ending { Some(failure) } else { None };
                (started_at, Some(finished_at), failure)
            }
        };
        Self {
            operation_id: operation.id.to_string(),
            operation_type: operation.operation_type.to_string(),
            version: operation.version.to_string(),
            org_id: operation.project.org_id.to_string(),
            project_id: operation.project.project_id.to_string(),
            requested_by_user_id: operation.requested_by,
            target_selector: operation.target_selector,
            linked_node_id: operation.linked_node_id.map(|id| id.to_string()),
            linked_allocation_id: operation.linked_allocation_id,
            total_nodes: operation.total_nodes,
            run: operation.run,
            priority: operation.terms.priority,
            deadline: text(operation.terms.deadline),
            max_parallel_nodes: operation.terms.max_parallel_nodes,
            failure_budget: operation.terms.failure_budget,
            idempotency_key: operation.idempotency_key,
            correlation_id: operation.correlation_id,
            trigger_source: operation.trigger_source.name().to_owned(),
            status,
            failure: failure.map(FailureView::from),
            sources: serde_json::to_value(&operation.sources).unwrap_or_default(),
            inputs: Some(operation.inputs),
            plan_digest: operation.plan_digest.to_string(),
            total_steps: operation.total_steps,
            created_at: operation.created_at.to_string(),
            started_at: text(started_at),
            finished_at: text(finished_at),
            cancel_requested_at: text(operation.cancel_requested_at),
            nodes: None,
            steps: None,
            denials: None,
            warnings: Vec::new(),
        }
    }

    /// An operation in a list: without its inputs, which may be large.
    pub(super) fn summary(operation: Operation) -> Self {
        Self { inputs: None, ..Self::brief(operation) }
    }

    /// With what whoever asked for it should know.
    pub(super) fn warned(self, deprecation: Option<&Deprecation>) -> Self {
        Self { warnings: deprecation.map(Deprecation::warning).into_iter().collect(), ..self }
    }

    /// One operation.
    pub(super) fn whole(operation: Operation, nodes: Vec<NodeTask>, steps: Vec<Step>, denied: Vec<DeniedCall>) -> Self {
        Self {
            nodes: Some(nodes.into_iter().map(NodeTaskView::from).collect()),
            steps: Some(steps.into_iter().map(StepView::from).collect()),
            denials: Some(denied.into_iter().map(DenialView::from).collect()),
            ..Self::brief(operation)
        }
    }
}

impl From<DeniedCall> for DenialView {
    fn from(denied: DeniedCall) -> Self {
        let DeniedCall { step_id, attempt, component, denial } = denied;
        let fix = denial.fix(&step_id).and_then(|fix| serde_json::to_value(fix).ok());
        Self {
            step_id: step_id.to_string(),
            attempt,
            component: component.to_string(),
            at: Timestamp::from_millisecond(denial.at).ok().map(|at| at.to_string()),
            capability: denial.capability,
            function: denial.function,
            rule: denial.rule,
            allows: denial.allows,
            subject: denial.subject,
            dropped: denial.dropped,
            fix,
        }
    }
}

impl From<Step> for StepView {
    fn from(step: Step) -> Self {
        let status = step.state.status().to_string();
        let mut view = Self {
            node_id: step.node_id.to_string(),
            step_id: step.id.to_string(),
            step_index: step.index,
            kind: step.kind.to_string(),
            component: step.component.to_string(),
            needs: step.needs.iter().map(ToString::to_string).collect(),
            status,
            attempt_number: step.attempt,
            percent: step.percent,
            message: step.message,
            last_log: step.last_log,
            started_at: text(step.started_at),
            finished_at: None,
            duration_ms: None,
            changed: None,
            output: None,
            failure: None,
            because_of: None,
            settlement: step.settlement.map(SettlementView::from),
        };
        if let StepState::Over { outcome, duration_ms, finished_at } = step.state {
            view.finished_at = Some(finished_at.to_string());
            view.duration_ms = Some(duration_ms);
            match outcome {
                StepOutcome::Succeeded { output, changed } => {
                    (view.output, view.changed) = (Some(output), Some(changed));
                }
                StepOutcome::Failed { failure } => view.failure = Some(failure.into()),
                StepOutcome::Skipped { because_of } => view.because_of = Some(because_of),
                StepOutcome::Canceled => {}
            }
        }
        view
    }
}
