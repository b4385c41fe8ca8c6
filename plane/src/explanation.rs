//! What each step of a plan may reach, and whose word each part of that is.

use std::collections::BTreeMap;

use fettle_model::{
    access::{self, Question, StepAccess},
    descriptor::Descriptor,
    document,
    name::StepId,
    plan::Plan,
    policy::PolicyBundle,
    reference::Reference,
};
use fettle_supply::ArtifactKind;
use serde::Serialize;

use crate::artifact::{ArtifactSource, Fetched};

/// Request, grant and ceiling of every step of a plan.
#[derive(Debug, Serialize)]
pub(crate) struct Explanation {
    /// Who signed the definition: the grants.
    definition_signed_by: String,
    /// Who signed the policy bundle: the ceiling.
    policy_signed_by: String,
    /// Its revision.
    policy_revision: u64,
    /// The steps, in the order of the plan.
    steps: Vec<StepExplanation>,
}

#[derive(Debug, Serialize)]
struct StepExplanation {
    step_id: StepId,
    /// Who signed its component: the request.
    signed_by: String,
    #[serde(flatten)]
    access: StepAccess,
}

/// Explains a plan from the signed documents, verified again: a signer may be trusted no longer.
///
/// # Errors
/// A sentence, when one of them cannot be had or read now.
pub(crate) async fn explain(artifacts: &dyn ArtifactSource, plan: &Plan) -> Result<Explanation, String> {
    let definition = fetch(artifacts, ArtifactKind::Definition, &plan.graph.sources.definition).await?;
    let bundle = fetch(artifacts, ArtifactKind::PolicyBundle, &plan.graph.sources.policy).await?;
    let text = std::str::from_utf8(&bundle.content).map_err(|error| error.to_string())?;
    let policy: PolicyBundle =
        document::read(text).map_err(|error| format!("{} is no policy bundle: {error}", plan.graph.sources.policy))?;
    let mut components: BTreeMap<Reference, (Descriptor, String)> = BTreeMap::new();
    let mut steps = Vec::with_capacity(plan.graph.steps.len());
    for step in &plan.graph.steps {
        if !components.contains_key(&step.component) {
            components.insert(step.component.clone(), component(artifacts, &step.component).await?);
        }
        let Some((descriptor, signed_by)) = components.get(&step.component) else { continue };
        // The plane never compiles a component, so it cannot say what one imports.
        let (imports, grants, policy) = (None, Some(&step.grants), Some(&policy));
        let access = access::of_step(&Question { step: Some(&step.id), descriptor, imports, grants, policy });
        steps.push(StepExplanation { step_id: step.id.clone(), signed_by: signed_by.clone(), access });
    }
    let (definition_signed_by, policy_signed_by) = (definition.signed_by, bundle.signed_by);
    Ok(Explanation { definition_signed_by, policy_signed_by, policy_revision: policy.revision, steps })
}

async fn fetch(artifacts: &dyn ArtifactSource, kind: ArtifactKind, reference: &Reference) -> Result<Fetched, String> {
    artifacts.fetch(kind, reference).await.map_err(|error| error.message)
}

async fn component(artifacts: &dyn ArtifactSource, reference: &Reference) -> Result<(Descriptor, String), String> {
    let fetched = fetch(artifacts, ArtifactKind::Step, reference).await?;
    let value = fetched.descriptor.ok_or_else(|| format!("{reference} carries no descriptor"))?;
    let descriptor = serde_json::from_value(value)
        .map_err(|error| format!("the descriptor of {reference} is malformed: {error}"))?;
    Ok((descriptor, fetched.signed_by))
}
