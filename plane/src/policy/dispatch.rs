//! Whether a node may be given a task now.

use std::time::Duration;

use fettle_store::{
    StoreError,
    node::Node,
    operation::{NodeTask, Operation, TaskStatus, Wait},
    task::ReadyTask,
};
use jiff::Timestamp;

use super::{
    decision::{Broken, RegoTaken},
    input::{DispatchInput, NodeInput, OperationInput, ProjectInput, TimeInput},
    rego::{Entry, Rego},
};
use crate::state::State;

/// Nodes of one operation for which the rules are asked when somebody looks at it, and for how long at most. The others
/// wait for the same reasons.
const EXPLAINED: usize = 10;
const PATIENCE: Duration = Duration::from_millis(500);

/// What was decided about a task that is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DispatchDecision {
    /// It may go.
    Go,
    /// It waits. Asked again later, the answer may be another.
    Wait {
        /// Every rule that denies.
        broken: Vec<Broken>,
        /// What was asked.
        taken: RegoTaken,
    },
}

impl DispatchInput {
    /// The node is about to be given the task.
    pub(crate) fn of(task: &ReadyTask, node: &Node, at: Timestamp) -> Self {
        Self {
            operation: OperationInput {
                operation_type: task.operation_type.to_string(),
                version: task.version.to_string(),
                inputs: task.inputs.clone(),
            },
            operation_id: task.operation_id.to_string(),
            project: ProjectInput::of(&task.project),
            node: NodeInput::of(node),
            requested_by: task.requested_by.clone(),
            accepted_at: TimeInput::of(task.created_at),
            at: TimeInput::of(at),
        }
    }
}

/// Asks `data.fettle.dispatch.deny`. Without such a policy everything goes.
pub(crate) async fn decide(rego: &Rego, input: &DispatchInput) -> DispatchDecision {
    if !rego.has(Entry::Dispatch) {
        return DispatchDecision::Go;
    }
    let verdict = rego.decide(Entry::Dispatch, input).await;
    if verdict.broken.is_empty() {
        DispatchDecision::Go
    } else {
        DispatchDecision::Wait { broken: verdict.broken, taken: verdict.taken }
    }
}

/// Adds to what the tasks of an operation wait for what the rules say of them now, as far as they say it soon.
pub(crate) async fn explain(state: &State, operation: &Operation, tasks: &mut [NodeTask]) {
    if !state.rego.has(Entry::Dispatch) {
        return;
    }
    let asked = async {
        for task in tasks.iter_mut().filter(|task| task.status == TaskStatus::Ready).take(EXPLAINED) {
            let Some(node) = state.store.node(task.node_id).await? else { continue };
            let input = DispatchInput::of(&as_ready(operation, task), &node, state.clock.now());
            if let DispatchDecision::Wait { broken, .. } = decide(&state.rego, &input).await {
                task.waits_for.extend(broken.into_iter().map(|broken| Wait::Policy(broken.message)));
            }
        }
        Ok::<_, StoreError>(())
    };
    if let Ok(Err(error)) = tokio::time::timeout(PATIENCE, asked).await {
        tracing::warn!(%error, operation_id = %operation.id, "what policy says of the tasks cannot be shown");
    }
}

fn as_ready(operation: &Operation, task: &NodeTask) -> ReadyTask {
    ReadyTask {
        id: task.id,
        operation_id: operation.id,
        operation_type: operation.operation_type.clone(),
        version: operation.version.clone(),
        project: operation.project.clone(),
        inputs: operation.inputs.clone(),
        requested_by: operation.requested_by.clone(),
        created_at: operation.created_at,
    }
}
