//! What nobody knows of an operation: asking its nodes, and taking a person's word.

use std::collections::BTreeSet;

use fettle_model::{
    descriptor::Descriptor,
    name::StepId,
    schema::Schema,
    violation::{Violation, Violations},
};
use fettle_store::{
    context::Context,
    id::{NodeId, TaskId},
    operation::{Decision, NewInquiry, NodeTask, Operation},
    project::Project,
};
use fettle_supply::ArtifactKind;
use serde_json::Value;

use crate::{
    retry::{self, Retry, choose},
    state::State,
    submission::SubmissionError,
};

/// What a person says.
pub(crate) struct Verdict {
    /// The step.
    pub(crate) step_id: String,
    /// The name or id of the node, where there are several.
    pub(crate) node: Option<String>,
    /// What the step put out; none when it did not happen.
    pub(crate) happened: Option<Value>,
    /// Whether the operation goes on.
    pub(crate) continues: bool,
}

/// Asks the nodes of an operation whether steps have happened of which nobody knows it.
pub(crate) async fn force_probe(
    state: &State,
    project: &Project,
    operation: Operation,
    nodes: Option<Vec<String>>,
    context: Context,
) -> Result<Operation, SubmissionError> {
    let tasks = state.store.node_tasks(operation.id, state.heard_since()).await?;
    let nodes = nodes.map(|names| choose(&names, &tasks)).transpose()?;
    let inquiry = NewInquiry { task_ids: task_ids(state, &tasks)?, nodes };
    Ok(state.store.inquire(&project.project_id, operation.id, inquiry, context).await?)
}

/// Takes a person's word for a step, and goes on where that is wanted.
pub(crate) async fn recover(
    state: &State,
    project: &Project,
    operation: Operation,
    verdict: Verdict,
    context: Context,
) -> Result<Operation, SubmissionError> {
    let tasks = state.store.node_tasks(operation.id, state.heard_since()).await?;
    let step_id: StepId = verdict.step_id.parse().map_err(|error| invalid("/step_id", &error))?;
    let node_id = node_id(verdict.node, &tasks)?;
    if let Some(output) = &verdict.happened {
        check_output(state, &operation, &step_id, output).await?;
    }
    let decision = Decision { node_id, step_id, happened: verdict.happened };
    let run = match verdict.continues {
        false => None,
        true => {
            let retry = Retry { nodes: None, accept_unknown: false, timeout_seconds: None };
            Some(retry::admitted(state, project, &operation, retry, &context).await?)
        }
    };
    Ok(state.store.decide(&project.project_id, operation.id, decision, run, context).await?)
}

fn task_ids(state: &State, tasks: &[NodeTask]) -> Result<Vec<TaskId>, SubmissionError> {
    tasks.iter().map(|_| Ok(TaskId::new(state.ulid().map_err(SubmissionError::Random)?))).collect()
}

fn node_id(name: Option<String>, tasks: &[NodeTask]) -> Result<Option<NodeId>, SubmissionError> {
    let Some(name) = name else { return Ok(None) };
    let chosen: BTreeSet<NodeId> = choose(&[name], tasks)?;
    Ok(chosen.into_iter().next())
}

/// What later steps are given must be what the step promised to put out.
async fn check_output(
    state: &State,
    operation: &Operation,
    step_id: &StepId,
    output: &Value,
) -> Result<(), SubmissionError> {
    let steps = state.store.steps(operation.id).await?;
    // One that is not there is the store's to say.
    let Some(step) = steps.into_iter().find(|step| step.id == *step_id) else { return Ok(()) };
    let fetched = state.artifacts.fetch(ArtifactKind::Step, &step.component).await;
    let fetched = fetched.map_err(|error| invalid("/output", &error))?;
    let descriptor: Option<Descriptor> = fetched.descriptor.and_then(|value| serde_json::from_value(value).ok());
    let Some(descriptor) = descriptor else { return Ok(()) };
    let unusable = |reason: String| SubmissionError::Invalid(Violations(vec![Violation::new("/output", reason)]));
    let schema = Schema::compile(&descriptor.output_schema).map_err(unusable)?;
    schema.check(output).map_err(|violations| {
        let text = format!("it is not what `{}` puts out: {violations}", descriptor.kind);
        SubmissionError::Invalid(Violations(vec![Violation::new("/output", text)]))
    })
}

fn invalid(place: &str, error: &dyn std::error::Error) -> SubmissionError {
    SubmissionError::Invalid(Violations(vec![Violation::new(place, error.to_string())]))
}
