//! Another run of an operation.

use std::{collections::BTreeSet, time::Duration};

use fettle_model::{
    name::StepId,
    violation::{Violation, Violations},
};
use fettle_store::{
    context::Context,
    id::{NodeId, TaskId},
    operation::{NewRun, NodeTask, Operation},
    project::Project,
};

use crate::{state::State, submission::SubmissionError};

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
    let tasks = state.store.node_tasks(operation.id, state.heard_since()).await?;
    let nodes = wanted.nodes.map(|names| choose(&names, &tasks)).transpose()?;
    let definition = state.definitions.get(state, &operation.operation_type, &operation.version).await?;
    let steps = definition.iter().flat_map(|version| &version.definition.steps);
    let not_reusable: BTreeSet<StepId> = steps.filter(|step| !step.reusable).map(|step| step.id.clone()).collect();
    let asked = wanted.timeout_seconds.map(|seconds| Duration::from_secs(u64::from(seconds)));
    let limit = definition.as_ref().and_then(|version| version.definition.timeout);
    let ids = tasks.iter().map(|_| Ok(TaskId::new(state.ulid().map_err(SubmissionError::Random)?)));
    let run = NewRun {
        task_ids: ids.collect::<Result<_, SubmissionError>>()?,
        nodes,
        not_reusable,
        accept_unknown: wanted.accept_unknown,
        deadline: asked.into_iter().chain(limit).min().map(|timeout| state.after(timeout)),
    };
    Ok(state.store.retry_operation(&project.project_id, operation.id, run, context).await?)
}

fn choose(names: &[String], tasks: &[NodeTask]) -> Result<BTreeSet<NodeId>, SubmissionError> {
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
