//! What the organisation's own rules let go to a node. Where they say nothing of dispatch, everything goes.

use std::{
    collections::{HashSet, VecDeque},
    time::{Duration, Instant},
};

use fettle_store::{
    StoreError,
    audit::Refusal,
    context::Context,
    id::{NodeId, TaskId},
    node::Node,
    task::{Lease, ReadyTask, Wanted},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    policy::{
        decision::{Broken, RegoTaken},
        dispatch::{self, DispatchDecision},
        input::DispatchInput,
    },
    state::State,
};

/// How long after it was held back a task is asked about again, if nothing else happens on its node: a rule may look at
/// the time.
const AGAIN: Duration = Duration::from_secs(15);

/// How long a stream asks at a time: it has cancels to bring and free slots to hear of, however slow the rules are.
const PASS: Duration = Duration::from_millis(500);

/// One look at the queue.
pub(crate) struct Pass {
    node: Node,
    end: Instant,
}

/// Between the queue of one node and its stream.
pub(crate) struct Screen {
    node_id: NodeId,
    /// Tasks that are held back, and of which that was written down.
    held_back: HashSet<TaskId>,
    /// The tasks that are still to be asked about, in the order in which they go.
    waiting: VecDeque<ReadyTask>,
    /// Whether the time was over before the tasks were.
    is_behind: bool,
}

impl Screen {
    pub(crate) fn new(node_id: NodeId) -> Self {
        Self { node_id, held_back: HashSet::new(), waiting: VecDeque::new(), is_behind: false }
    }

    /// Waits until there is something to ask about again: at once when the time was over before; for ever when nothing is
    /// held back.
    pub(crate) async fn again(&self) {
        if self.is_behind {
            return;
        }
        if self.held_back.is_empty() {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(AGAIN).await;
    }

    /// Nothing can be leased now, so nothing is asked about before something happens.
    pub(crate) fn rest(&mut self) {
        self.is_behind = false;
    }

    /// Looks at the node's queue, or goes on with what the time did not suffice for.
    pub(crate) async fn begin(&mut self, state: &State) -> Result<Pass, StoreError> {
        if !std::mem::take(&mut self.is_behind) {
            let ready = state.store.ready_tasks(self.node_id).await?;
            self.held_back.retain(|id| ready.iter().any(|task| task.id == *id));
            self.waiting = ready.into();
        }
        let node = state.store.node(self.node_id).await?;
        Ok(Pass { node: node.ok_or_else(|| StoreError::not_found("node", self.node_id))?, end: Instant::now() + PASS })
    }

    /// Leases the next task that the rules let go; none when there is none, or when the time is over. One by one: a rule
    /// may count what the node was given before, and a lease that waits for others would expire.
    pub(crate) async fn next(
        &mut self,
        state: &State,
        pass: &mut Pass,
        token: &CancellationToken,
        context: &Context,
    ) -> Result<Option<Lease>, StoreError> {
        while let Some(task) = self.waiting.pop_front() {
            let input = DispatchInput::of(&task, &pass.node, state.clock.now());
            match dispatch::decide(&state.rego, &input).await {
                // The rules may have taken long, and another stream this one's place.
                DispatchDecision::Go if token.is_cancelled() => return Ok(None),
                DispatchDecision::Go => {
                    self.held_back.remove(&task.id);
                    let acknowledge_by = state.after(state.config.acknowledge_timeout);
                    let wanted = Wanted::This(task.id);
                    let given = state.store.lease_tasks(self.node_id, wanted, acknowledge_by, context.clone()).await?;
                    if let Some(lease) = given.into_iter().next() {
                        pass.node.running_tasks = pass.node.running_tasks.saturating_add(1);
                        return Ok(Some(lease));
                    }
                }
                DispatchDecision::Wait { broken, taken } => {
                    self.hold_back(state, &task, &broken, &taken, context).await?;
                }
            }
            if Instant::now() >= pass.end {
                self.is_behind = !self.waiting.is_empty();
                break;
            }
        }
        Ok(None)
    }

    /// Writes down, once for a stream, that a task is held back, and why.
    async fn hold_back(
        &mut self,
        state: &State,
        task: &ReadyTask,
        broken: &[Broken],
        taken: &RegoTaken,
        context: &Context,
    ) -> Result<(), StoreError> {
        if !self.held_back.insert(task.id) {
            return Ok(());
        }
        let reason = broken.first().map(|broken| broken.message.as_str());
        tracing::info!(task_id = %task.id, operation_id = %task.operation_id, reason, "policy holds a task back");
        let refusal = Refusal {
            scope: format!("{}/{}", task.project.org_id, task.project.project_id),
            action: "task.lease",
            resource_name: format!("tasks/{}", task.id),
            code: "policy.denied",
            details: Some(json!({ "violations": broken, "rego": taken })),
        };
        state.store.record_refusal(refusal, context.clone()).await
    }
}
