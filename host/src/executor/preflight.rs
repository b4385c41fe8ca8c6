//! Before anything runs: fetch and verify all that was signed, compute the plan, compare it with what
//! the plane expects, link every component with what it was granted.

use std::{collections::BTreeMap, sync::Arc};

use fettle_model::{
    access::{self, Question},
    definition::ArtifactConstraints,
    failure::{Failure, FailureClass},
    name::StepId,
    plan::{Graph, Plan, PlannedStep, Resolved},
    policy::PolicyBundle,
    task::Task,
};

use super::{
    Executor,
    component::Component,
    failure,
    shelf::{Loaded, of_load},
};
use crate::capabilities::{Configured, OfTask};

/// A task that may run.
pub(super) struct Prepared {
    pub(super) graph: Arc<Graph>,
    pub(super) steps: BTreeMap<StepId, Ready>,
}

/// A step that may run.
pub(super) struct Ready {
    pub(super) planned: PlannedStep,
    pub(super) component: Component,
    pub(super) loaded: Arc<Loaded>,
    pub(super) capabilities: Configured,
}

/// Verifies, plans and links a task.
pub(super) async fn prepare(executor: &Executor, task: &Task, shared: &OfTask) -> Result<Prepared, Failure> {
    let sources = &task.sources;
    let (definition, catalog, policy) = tokio::try_join!(
        executor.shelf.definition(&sources.definition),
        executor.shelf.catalog(&sources.catalog),
        executor.policies.named(&executor.shelf, &sources.policy),
    )?;
    let resolved = executor.shelf.graph(sources, &definition, &catalog)?;
    resolved.check(&task.inputs).map_err(|error| refused("plan.inputs", &error))?;
    check_digest(&resolved, task)?;
    let graph = Arc::clone(&resolved.graph);
    let policy = policy.map_or_else(|| executor.policies.recovery(&sources.policy, &graph), Ok)?;
    let mut steps = BTreeMap::new();
    for step in &graph.steps {
        let mut ready =
            ready(executor, step, &policy, graph.artifact_constraints.as_ref()).await.map_err(|mut failure| {
                failure.message = format!("step `{}`: {}", step.id, failure.message);
                failure
            })?;
        ready.capabilities = ready.capabilities.with_purse(&shared.purse, &step.id).with_activator(&shared.activator);
        steps.insert(step.id.clone(), ready);
    }
    Ok(Prepared { graph, steps })
}

pub(super) fn refused(code: &str, error: &dyn std::error::Error) -> Failure {
    failure(FailureClass::InvalidInput, code, error.to_string())
}

/// The plan that follows from signed bytes must be the one that the plane asks for.
fn check_digest(resolved: &Resolved, task: &Task) -> Result<(), Failure> {
    let plan = Plan { graph: Arc::clone(&resolved.graph), inputs: task.inputs.clone() };
    let digest = plan.digest_with(resolved.digest).map_err(|error| refused("plan.digest", &error))?;
    if digest == task.plan_digest {
        return Ok(());
    }
    Err(failure(
        FailureClass::Denied,
        "plan.mismatch",
        format!(
            "the plane asks for plan {}, and the signed definition gives {digest}; this node runs only what was signed",
            task.plan_digest
        ),
    ))
}

async fn ready(
    executor: &Executor,
    planned: &PlannedStep,
    policy: &PolicyBundle,
    constraints: Option<&ArtifactConstraints>,
) -> Result<Ready, Failure> {
    let loaded = executor.shelf.component(&planned.component).await?;
    check_descriptor(planned, &loaded)?;
    let access = access::of_step(&Question {
        step: Some(&planned.id),
        descriptor: &loaded.descriptor,
        imports: Some(&loaded.code.imports()),
        grants: Some(&planned.grants),
        policy: Some(policy),
    });
    access.allow()?;
    let limits = (&policy.limits, &planned.limits);
    let component = loaded.code.link(&executor.sandbox, &access.effective, limits).map_err(of_load)?;
    let capabilities = Configured::new(&executor.node, &access.effective, policy, constraints)?;
    Ok(Ready { planned: planned.clone(), component, loaded, capabilities })
}

/// What the component says of itself must be what was signed, and of the kind that the catalog says.
fn check_descriptor(planned: &PlannedStep, loaded: &Loaded) -> Result<(), Failure> {
    let descriptor = &loaded.descriptor;
    if descriptor.kind != planned.kind {
        return Err(failure(
            FailureClass::Denied,
            "catalog.wrong-kind",
            format!(
                "the catalog says that {} is `{}`, and the component says it is `{}`; publish a correct catalog",
                planned.component, planned.kind, descriptor.kind
            ),
        ));
    }
    if loaded.signed.as_ref() != Some(descriptor) {
        return Err(failure(
            FailureClass::Denied,
            "step.descriptor-mismatch",
            format!(
                "{} was published with another descriptor than its component has; publish it again with `fettle step publish`",
                planned.component
            ),
        ));
    }
    Ok(())
}
