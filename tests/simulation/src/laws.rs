//! What must hold when everything is over.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fettle_model::operation::StepOutcome;
use fettle_store::{
    StoreError,
    audit::AuditStore as _,
    chain::Chain,
    event::{EventKind, EventStore as _},
    id::{NodeId, OperationId},
    node::{Node, NodeStore as _},
    operation::{Operation, OperationState, OperationStore as _, StepState},
    page::Page,
};
use fettle_store_sqlite::SqliteStore;

use crate::{
    fleet::{Ground, Seat},
    machine::complete,
    person::Submitted,
};

/// How long everything may take to end once nothing goes wrong any more: a lease that was given before a clock went
/// back an hour ends an hour later.
pub(crate) const BOUND: Duration = Duration::from_secs(90 * 60);

/// How often somebody looks.
const LOOK: Duration = Duration::from_secs(1);

/// Looks at the store beside the plane.
pub(crate) struct Eye<'a> {
    /// What everybody shares.
    pub(crate) ground: &'a Arc<Ground>,
    /// The database.
    pub(crate) store: &'a SqliteStore,
}

impl Eye<'_> {
    fn see<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> T {
        complete(&self.ground.disk, work).expect("the store answers")
    }

    fn broken(&self, law: String) {
        self.ground.net.trace.broken(law);
    }

    fn operation(&self, submitted: &Submitted) -> Option<(OperationId, Operation)> {
        let id = submitted.id.parse().expect("it is an id");
        let project = submitted.project.parse().expect("it is a name");
        let found = self.see(self.store.operation(&project, id));
        if found.is_none() {
            self.broken(format!("operation {id} was accepted, and it is gone"));
        }
        found.map(|operation| (id, operation))
    }

    /// Waits until all is over; how long it took, or what is not.
    ///
    /// # Errors
    /// What is not over in time.
    pub(crate) async fn all_is_over(&self, submitted: &[Submitted], hosts: &[Arc<Seat>]) -> Result<Duration, String> {
        let begin = tokio::time::Instant::now();
        loop {
            let mut open: Vec<String> = submitted
                .iter()
                .filter_map(|submitted| self.operation(submitted))
                .filter(|(_, operation)| !matches!(operation.state, OperationState::Over { .. }))
                .map(|(id, operation)| format!("operation {id} is {:?}", operation.state.status()))
                .collect();
            for host in hosts {
                let held = match host.journal() {
                    Some(journal) => journal.held().await.ok(),
                    None => None,
                };
                match held {
                    Some(held) if held.is_empty() => {}
                    Some(held) => open.push(format!("{} holds {} tasks", host.name, held.len())),
                    None => open.push(format!("{} is away", host.name)),
                }
            }
            if open.is_empty() {
                return Ok(begin.elapsed());
            }
            if begin.elapsed() > BOUND {
                return Err(open.join(", "));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Every row of the audit trail follows from the one before it.
    pub(crate) fn audit_chain_is_whole(&self) {
        let (mut chain, mut after) = (Chain::default(), None);
        loop {
            let rows = self.see(self.store.audit(Page { after, size: 1000 }));
            let Some(last) = rows.last() else { break };
            after = Some(last.sequence);
            for row in &rows {
                if let Err(error) = chain.follow(row) {
                    return self.broken(format!("the audit trail: {error}"));
                }
            }
        }
        if chain.rows().0 < 10 {
            self.broken(format!("the audit trail has only {} rows", chain.rows().0));
        }
    }

    /// Results are told once and stay, and nobody's task ran on a node that is not theirs.
    pub(crate) fn results_stand(&self, submitted: &[Submitted], hosts: &[Arc<Seat>]) {
        let told = self.ground.ledger.results();
        let mut homes = BTreeMap::new();
        for (id, operation) in submitted.iter().filter_map(|submitted| self.operation(submitted)) {
            let steps = self.see(self.store.steps(id));
            self.told_once(id);
            for step in &steps {
                let node = self.node(step.node_id);
                if !node.is_for(&operation.project) {
                    self.broken(format!(
                        "operation {id} of {} is on {}",
                        operation.project.project_id, node.facts.name
                    ));
                }
                homes.insert(step.task_id.to_string(), node.facts.name);
                let StepState::Over { outcome: StepOutcome::Succeeded { output, .. }, .. } = &step.state else {
                    continue;
                };
                if told.get(&(step.task_id, step.id.to_string())) != Some(output) {
                    self.broken(format!(
                        "the result of step {} of task {} is not what was told first",
                        step.id, step.task_id
                    ));
                }
            }
        }
        self.happened_at_home(&homes, hosts);
    }

    fn node(&self, id: NodeId) -> Node {
        self.see(self.store.node(id)).expect("the node is known")
    }

    /// One event says that a step is over, and one that its operation is.
    fn told_once(&self, id: OperationId) {
        let events = self.see(self.store.events(id, Page { after: None, size: 1000 }));
        let over = |kind: &EventKind| matches!(kind, EventKind::Completed | EventKind::Failed | EventKind::Canceled);
        let ends = events.iter().filter(|event| over(&event.kind)).count();
        if ends != 1 {
            self.broken(format!("operation {id} was told to be over {ends} times"));
        }
        let mut told: BTreeMap<(String, String), usize> = BTreeMap::new();
        for event in events.iter().filter(|event| event.kind == EventKind::Progress) {
            let text = |name: &str| event.payload[name].as_str().unwrap_or_default().to_owned();
            if matches!(text("step_status").as_str(), "succeeded" | "failed") {
                *told.entry((text("node_id"), text("current_step_name"))).or_default() += 1;
            }
        }
        for ((node, step), times) in told.into_iter().filter(|(_, times)| *times > 1) {
            self.broken(format!("step {step} of operation {id} on {node} was told to be over {times} times"));
        }
    }

    fn happened_at_home(&self, homes: &BTreeMap<String, String>, hosts: &[Arc<Seat>]) {
        for host in hosts {
            for ((task, step), times) in host.effects.happened() {
                if homes.get(&task).is_some_and(|home| *home != host.name) {
                    self.broken(format!("step {step} of task {task} happened on {}", host.name));
                }
                if step == "consume" && times > 1 {
                    self.broken(format!(
                        "step {step} of task {task}, which may not be repeated, happened {times} times"
                    ));
                }
            }
        }
    }
}
