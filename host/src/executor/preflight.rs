//! Before anything runs: fetch and verify all that was signed, compute the plan, compare it with what
//! the plane expects, link every component with what it was granted.

use std::{collections::BTreeMap, sync::Arc};

use fettle_model::{
    catalog::Catalog,
    definition::{ArtifactConstraints, Definition},
    descriptor::Descriptor,
    failure::{Failure, FailureClass},
    name::StepId,
    plan::{self, Plan, PlannedStep},
    policy::PolicyBundle,
    reference::Reference,
    task::Task,
};
use fettle_supply::{ArtifactKind, SupplyError};
use serde::de::DeserializeOwned;

use super::{Executor, failure};
use crate::{
    capabilities::Configured,
    sandbox::{LoadError, Step},
};

/// A task that may run.
pub(super) struct Prepared {
    pub(super) plan: Plan,
    pub(super) steps: BTreeMap<StepId, Ready>,
    pub(super) policy: Arc<PolicyBundle>,
}

/// A step that may run.
pub(super) struct Ready {
    pub(super) planned: PlannedStep,
    pub(super) component: Step,
    pub(super) descriptor: Descriptor,
    pub(super) capabilities: Configured,
}

/// Verifies, plans and links a task.
pub(super) async fn prepare(executor: &Executor, task: &Task) -> Result<Prepared, Failure> {
    let sources = &task.sources;
    let (definition, catalog, policy) = tokio::try_join!(
        document::<Definition>(executor, ArtifactKind::Definition, &sources.definition),
        document::<Catalog>(executor, ArtifactKind::Catalog, &sources.catalog),
        document::<PolicyBundle>(executor, ArtifactKind::PolicyBundle, &sources.policy),
    )?;
    let plan = plan::plan(sources.clone(), &definition, &catalog, task.inputs.clone())
        .map_err(|error| failure(FailureClass::InvalidInput, "plan.inputs", error.to_string()))?;
    check_digest(&plan, task)?;
    policy.check().map_err(|violations| {
        failure(
            FailureClass::Denied,
            "policy.invalid",
            format!("policy bundle {} is not sound: {violations}", sources.policy),
        )
    })?;
    let policy = Arc::new(policy);
    let mut steps = BTreeMap::new();
    for step in &plan.steps {
        let ready =
            ready(executor, step, &policy, plan.artifact_constraints.as_ref()).await.map_err(|mut failure| {
                failure.message = format!("step `{}`: {}", step.id, failure.message);
                failure
            })?;
        steps.insert(step.id.clone(), ready);
    }
    Ok(Prepared { plan, steps, policy })
}

/// The plan that follows from signed bytes must be the one that the plane asks for.
fn check_digest(plan: &Plan, task: &Task) -> Result<(), Failure> {
    let digest =
        plan.digest().map_err(|error| failure(FailureClass::InvalidInput, "plan.digest", error.to_string()))?;
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
    let artifact =
        executor.supplier.artifact(ArtifactKind::Step, &planned.component).await.map_err(|error| of_supply(&error))?;
    let signed = artifact.descriptor.clone();
    let compiled = executor.sandbox.compile(artifact.content).await.map_err(of_load)?;
    let descriptor = executor.sandbox.describe(&compiled).await.map_err(of_load)?;
    check_descriptor(planned, &descriptor, signed)?;
    let component = executor.sandbox.link(&compiled, &planned.grants).map_err(of_load)?;
    let capabilities = Configured::new(&executor.node, &planned.grants, policy, constraints)?;
    Ok(Ready { planned: planned.clone(), component, descriptor, capabilities })
}

/// What the component says of itself must be what was signed, and of the kind that the catalog says.
fn check_descriptor(
    planned: &PlannedStep,
    descriptor: &Descriptor,
    signed: Option<serde_json::Value>,
) -> Result<(), Failure> {
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
    let signed = signed.and_then(|signed| serde_json::from_value::<Descriptor>(signed).ok());
    if signed.as_ref() != Some(descriptor) {
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

async fn document<T: DeserializeOwned>(
    executor: &Executor,
    kind: ArtifactKind,
    reference: &Reference,
) -> Result<T, Failure> {
    let artifact = executor.supplier.artifact(kind, reference).await.map_err(|error| of_supply(&error))?;
    serde_json::from_slice(&artifact.content).map_err(|error| {
        failure(
            FailureClass::Denied,
            "artifact.malformed",
            format!("{reference} is signed and is not a valid {}: {error}", kind.name()),
        )
    })
}

/// A registry that does not deliver is worth another try; everything else is refused for good.
fn of_supply(error: &SupplyError) -> Failure {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    match error {
        SupplyError::Unavailable { .. } => failure(FailureClass::Transient, "supply.unavailable", text),
        SupplyError::Unsigned { .. } => failure(FailureClass::Denied, "supply.unsigned", text),
        SupplyError::Untrusted { .. } => failure(FailureClass::Denied, "supply.untrusted", text),
        SupplyError::Malformed { .. } => failure(FailureClass::Denied, "supply.malformed", text),
        SupplyError::Store { .. } | SupplyError::LocalFile { .. } | SupplyError::Signing { .. } => {
            failure(FailureClass::Permanent, "supply.store", text)
        }
    }
}

fn of_load(error: LoadError) -> Failure {
    let code = match &error {
        LoadError::NotAComponent { .. } => "step.not-a-component",
        LoadError::Refused { .. } => "step.refused",
    };
    failure(FailureClass::Denied, code, error.to_string())
}
