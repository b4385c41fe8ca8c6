//! Another run of an operation.

use std::{collections::BTreeSet, sync::Arc};

use fettle_model::{
    name::StepId,
    violation::{Violation, Violations},
};
use fettle_store::{
    StoreError,
    context::Context,
    id::{NodeId, TaskId},
    operation::{NewRun, NodeTask, Operation, TaskStatus},
    project::Project,
};

use crate::{
    policy::{self, Asked, EffectiveLimits, Way, rego::Entry},
    registration::Usable,
    state::State,
    submission::{SubmissionError, deadline, make},
    target::TargetSelector,
};

/// What is asked for.
pub(crate) struct Retry {
    /// Names or ids; none for all nodes where it did not succeed.
    pub(crate) nodes: Option<Vec<String>>,
    /// Whether steps run again of which nobody knows whether they happened.
    pub(crate) accept_unknown: bool,
    /// The longest that the new run may take.
    pub(crate) timeout_seconds: Option<u32>,
}

/// Starts it.
pub(crate) async fn retry(
    state: &State,
    project: &Project,
    operation: Operation,
    wanted: Retry,
    context: Context,
) -> Result<Operation, SubmissionError> {
    let run = admitted(state, project, &operation, wanted, &context).await?;
    Ok(state.store.retry_operation(&project.project_id, operation.id, run, context).await?)
}

/// What a new run is made of, once policy has allowed it.
pub(crate) async fn admitted(
    state: &State,
    project: &Project,
    operation: &Operation,
    wanted: Retry,
    context: &Context,
) -> Result<NewRun, SubmissionError> {
    let registered = find_definition(state, operation).await?;
    let tasks = state.store.node_tasks(operation.id, state.heard_since()).await?;
    let nodes = wanted.nodes.map(|names| choose(&names, &tasks)).transpose()?;
    let limits = admit(state, project, operation, &registered, &again(&tasks, nodes.as_ref()), context).await?;
    let definition = &registered.definition;
    let steps = definition.steps.iter().filter(|step| !step.reusable);
    let not_reusable: BTreeSet<StepId> = steps.map(|step| step.id.clone()).collect();
    let ids = tasks.iter().map(|_| Ok(TaskId::new(state.ulid().map_err(SubmissionError::Random)?)));
    Ok(NewRun {
        task_ids: ids.collect::<Result<_, SubmissionError>>()?,
        nodes,
        not_reusable,
        accept_unknown: wanted.accept_unknown,
        deadline: deadline(state, [wanted.timeout_seconds, limits.timeout_seconds], definition.timeout),
    })
}

/// The definition that the operation is made of.
async fn find_definition(state: &State, operation: &Operation) -> Result<Arc<Usable>, SubmissionError> {
    let Operation { operation_type, version, .. } = operation;
    let found = state.definitions.get(state, operation_type, version).await?;
    found.ok_or_else(|| {
        let name = format!("{operation_type}@{version}");
        SubmissionError::Store(StoreError::not_found("operation definition", &name))
    })
}

/// The nodes on which it runs again.
fn again(tasks: &[NodeTask], chosen: Option<&BTreeSet<NodeId>>) -> Vec<NodeId> {
    let runs = |task: &&NodeTask| match chosen {
        Some(chosen) => chosen.contains(&task.node_id),
        None => task.status != TaskStatus::Succeeded,
    };
    tasks.iter().filter(runs).map(|task| task.node_id).collect()
}

/// Asks policy as if the operation were submitted now: what has been forbidden since is not run again.
async fn admit(
    state: &State,
    project: &Project,
    operation: &Operation,
    registered: &Usable,
    node_ids: &[NodeId],
    context: &Context,
) -> Result<EffectiveLimits, SubmissionError> {
    let mut found = Vec::new();
    let plan = make(registered, operation.inputs.clone(), &mut found)?;
    let Some((plan, _)) = plan else { return Err(SubmissionError::Invalid(Violations(found))) };
    let target: TargetSelector = serde_json::from_value(operation.target_selector.clone())
        .map_err(|error| StoreError::corrupt("target selector", error))?;
    let mut nodes = Vec::new();
    if state.rego.has(Entry::Submit) {
        for id in node_ids {
            nodes.extend(state.store.node(*id).await?);
        }
    }
    let way = Way::Retry(operation.id);
    let asked = Asked { project, plan: &plan, target_kind: target.kind(), nodes: &nodes, way, context };
    Ok(policy::enforce(state, &asked).await?.limits)
}

pub(crate) fn choose(names: &[String], tasks: &[NodeTask]) -> Result<BTreeSet<NodeId>, SubmissionError> {
    let mut chosen = BTreeSet::new();
    let mut found = Vec::new();
    for (index, name) in names.iter().enumerate() {
        match tasks.iter().find(|task| task.node_name == *name || task.node_id.to_string() == *name) {
            Some(task) => {
                chosen.insert(task.node_id);
            }
            None => found.push(Violation::new(
                format!("/nodes/{index}"),
                format!("`{name}` is no node of this operation; `fettle operation show` lists its nodes"),
            )),
        }
    }
    Violations::check(found).map_err(SubmissionError::Invalid)?;
    Ok(chosen)
}
