//! Whether an operation may be: what the overlays of platform, tenant and project say, then the organisation's
//! own rules in Rego. Every decision names all that took part in it.

mod check;
pub(crate) mod decision;
pub(crate) mod dispatch;
pub(crate) mod input;
pub(crate) mod rego;

use fettle_model::{
    overlay::{
        Level, TargetKind,
        chain::{self, Chain, Concurrency, Effective, Resolved},
    },
    plan::Plan,
};
use fettle_store::{
    StoreError, audit::Refusal, context::Context, id::OperationId, node::Node, policy::PolicyDocument, project::Project,
};
use serde_json::Value;

use self::{
    check::Subject,
    decision::{Decision, OverlayView},
    input::{DefinitionInput, NodeInput, OperationInput, ProjectInput, SubmitInput, TimeInput},
    rego::Entry,
};
use crate::{
    state::State,
    submission::{Planned, Submission, SubmissionError},
};

/// What the dispatcher must keep of an operation that was accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EffectiveLimits {
    /// The longest that it may take.
    pub(crate) timeout_seconds: Option<u32>,
    /// How many of its type may be under way at once.
    pub(crate) max_concurrency: Concurrency,
}

/// An operation that may be.
pub(crate) struct Admitted {
    /// What the dispatcher must keep.
    pub(crate) limits: EffectiveLimits,
    /// The decision, to be kept with the operation.
    pub(crate) record: Value,
}

/// A request that can be planned, and who makes it.
pub(crate) struct Asked<'a> {
    pub(crate) project: &'a Project,
    pub(crate) plan: &'a Plan,
    pub(crate) target_kind: TargetKind,
    /// The nodes that it is for. Only rules in Rego look at them.
    pub(crate) nodes: &'a [Node],
    pub(crate) way: Way,
    pub(crate) context: &'a Context,
}

/// How somebody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// For a new operation.
    Submission {
        /// Whether the request can be repeated safely.
        has_idempotency_key: bool,
    },
    /// For another run of this one.
    Retry(OperationId),
}

impl<'a> Asked<'a> {
    /// A submission.
    pub(crate) fn submission(
        project: &'a Project,
        submission: &Submission,
        planned: &'a Planned,
        context: &'a Context,
    ) -> Self {
        let way = Way::Submission { has_idempotency_key: submission.idempotency_key.is_some() };
        let target_kind = submission.target.kind();
        Self { project, plan: &planned.plan, target_kind, nodes: &planned.nodes, way, context }
    }

    /// The row of the audit trail when it is denied.
    fn refusal(&self, record: Value) -> Refusal {
        let project = self.project;
        let operations = format!("projects/{}/operations", project.project_id);
        let (action, resource_name) = match self.way {
            Way::Submission { .. } => ("operation.create", operations),
            Way::Retry(id) => ("operation.retry", format!("{operations}/{id}")),
        };
        let scope = format!("{}/{}", project.org_id, project.project_id);
        Refusal { scope, action, resource_name, code: "policy.denied", details: Some(record) }
    }
}

/// What the overlays of a chain say together.
pub(crate) fn resolve(overlays: &[PolicyDocument]) -> Resolved {
    let mut chain = Chain::default();
    for document in overlays {
        *chain.at(document.scope.level()) = document.overlay.clone();
    }
    chain::resolve(&chain)
}

/// Lets a request through. One that is denied leaves a row in the audit trail with the whole decision.
pub(crate) async fn enforce(state: &State, asked: &Asked<'_>) -> Result<Admitted, SubmissionError> {
    conclude(state, asked, decide(state, asked).await?).await
}

/// Does what was decided.
pub(crate) async fn conclude(
    state: &State,
    asked: &Asked<'_>,
    decision: Decision,
) -> Result<Admitted, SubmissionError> {
    let record = serde_json::to_value(&decision).unwrap_or_default();
    if decision.allowed {
        return Ok(Admitted { limits: decision.limits(), record });
    }
    state.store.record_refusal(asked.refusal(record), asked.context.clone()).await?;
    Err(SubmissionError::Denied(decision.into_violations()))
}

/// Decides, and changes nothing.
pub(crate) async fn decide(state: &State, asked: &Asked<'_>) -> Result<Decision, StoreError> {
    let graph = &asked.plan.graph;
    let overlays = state.reads.policy_chain(asked.project, &graph.operation_type).await?;
    let resolved = resolve(&overlays);
    let subject = Subject {
        target_kind: asked.target_kind,
        constraints: graph.artifact_constraints.as_ref(),
        inputs: &asked.plan.inputs,
    };
    let mut broken = check::broken(&resolved, &subject);
    let mut taken = None;
    if state.rego.has(Entry::Submit) {
        let input = submit_input(asked, &resolved.effective);
        let verdict = state.rego.decide(Entry::Submit, &input).await;
        broken.extend(verdict.broken);
        taken = Some(verdict.taken);
    }
    Ok(Decision {
        allowed: broken.is_empty(),
        decided_at: asked.context.at.to_string(),
        operation_type: graph.operation_type.to_string(),
        version: graph.version.to_string(),
        project: format!("{}/{}", asked.project.org_id, asked.project.project_id),
        violations: broken,
        effective: resolved.effective,
        keys: resolved.keys,
        overlays: overlays.iter().map(OverlayView::of).collect(),
        rego: taken,
    })
}

fn submit_input(asked: &Asked<'_>, effective: &Effective) -> SubmitInput {
    let plan = asked.plan;
    SubmitInput {
        operation: OperationInput {
            operation_type: plan.graph.operation_type.to_string(),
            version: plan.graph.version.to_string(),
            inputs: plan.inputs.clone(),
        },
        project: ProjectInput::of(asked.project),
        nodes: asked.nodes.iter().map(NodeInput::of).collect(),
        target_kind: asked.target_kind.name().to_owned(),
        definition: DefinitionInput::of(&plan.graph),
        requested_by: asked.context.actor.to_string(),
        has_idempotency_key: asked.way == Way::Submission { has_idempotency_key: true },
        is_retry: matches!(asked.way, Way::Retry(_)),
        effective: serde_json::to_value(effective).unwrap_or_default(),
        at: TimeInput::of(asked.context.at),
    }
}

/// The name of a scope's level for people.
pub(crate) const fn whose(level: Level) -> &'static str {
    match level {
        Level::Global => "the platform",
        Level::Tenant => "the tenant",
        Level::Project => "the project",
    }
}
