//! The graph: each step starts when all it needs has succeeded; independent branches run at once.

use std::collections::{BTreeMap, BTreeSet};

use fettle_model::{
    definition::OnFailure,
    name::StepId,
    operation::StepOutcome,
    plan::PlannedStep,
    task::{StepEvent, Task},
};
use futures::{StreamExt as _, future::Either, stream::FuturesUnordered};

use super::{
    Executor, Interrupted, Signals,
    journal::{Finished, Pending, Progress},
    preflight::{Prepared, Ready},
    step::{self, Attempted},
    undo,
};

type Outcomes = BTreeMap<StepId, StepOutcome>;

/// Runs all that is not finished yet; answers how every step ended.
pub(super) async fn graph(
    executor: &Executor,
    task: &Task,
    prepared: &Prepared,
    progress: Progress,
    signals: &Signals,
) -> Result<Outcomes, Interrupted> {
    let mut graph = Graph::new(task, prepared, progress.finished);
    let mut running = FuturesUnordered::new();
    let mut unwritten: Vec<Pending> = Vec::new();
    // Nothing but `next` is awaited here, and steps journal their own ends: a step that was given the
    // journal's connection must be polled on, or everybody else waits for that connection in vain.
    loop {
        for closed in graph.unreachable(signals) {
            running.push(Either::Left(finish(executor, task, closed)));
        }
        for ready in graph.ready(executor.concurrency.saturating_sub(running.len()), signals) {
            let outputs = outputs_of(&ready.planned.needs, &graph.outcomes);
            let before = progress.attempts.get(&ready.planned.id).copied();
            running.push(Either::Right(Box::pin(async move {
                finish(executor, task, step::apply(executor, task, ready, before, outputs, signals).await?).await
            })));
        }
        let Some(finished) = running.next().await else { break };
        let (id, outcome, pending) = finished?;
        unwritten.extend(pending);
        graph.outcomes.insert(id, outcome);
    }
    for pending in unwritten {
        pending.durable().await.map_err(Interrupted::Journal)?;
    }
    // Put down between two steps: what is left is done after the next start.
    if prepared.graph.steps.iter().any(|step| !graph.outcomes.contains_key(&step.id)) {
        return Err(Interrupted::PutDown);
    }
    if prepared.graph.on_failure == OnFailure::Undo && graph.has_failed() {
        undo::all(executor, task, prepared, &graph.outcomes, &progress.undone, signals).await?;
    }
    Ok(graph.outcomes)
}

struct Graph<'a> {
    prepared: &'a Prepared,
    outcomes: Outcomes,
    /// What was not started, in the plan's order.
    waiting: Vec<&'a PlannedStep>,
}

impl<'a> Graph<'a> {
    fn new(task: &Task, prepared: &'a Prepared, mut outcomes: Outcomes) -> Self {
        // Results that the plane has, and this host's journal has not (it was lost with the disk, say).
        for (id, output) in &task.accepted {
            let outcome = StepOutcome::Succeeded { output: output.clone(), changed: false };
            outcomes.entry(id.clone()).or_insert(outcome);
        }
        let waiting = prepared.graph.steps.iter().filter(|step| !outcomes.contains_key(&step.id)).collect();
        Self { prepared, outcomes, waiting }
    }

    fn has_failed(&self) -> bool {
        self.outcomes.values().any(|outcome| !matches!(outcome, StepOutcome::Succeeded { .. }))
    }

    fn succeeded(&self, id: &StepId) -> bool {
        matches!(self.outcomes.get(id), Some(StepOutcome::Succeeded { .. }))
    }

    /// Steps that start now, in the plan's order. After a failure nothing more starts.
    fn ready(&mut self, room: usize, signals: &Signals) -> Vec<&'a Ready> {
        if self.has_failed()
            || signals.cancel.is_cancelled()
            || signals.put_down.is_cancelled()
            || signals.drain.is_cancelled()
        {
            return Vec::new();
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        let may = |step: &mut &PlannedStep| step.needs.iter().all(|needed| self.succeeded(needed));
        let ready: Vec<_> = waiting.extract_if(.., may).take(room).collect();
        self.waiting = waiting;
        ready.into_iter().filter_map(|step| self.prepared.steps.get(&step.id)).collect()
    }

    /// The steps that can never start: something failed, or the operation was canceled.
    fn unreachable(&mut self, signals: &Signals) -> Vec<Attempted> {
        let failed = self
            .outcomes
            .iter()
            .find(|(_, outcome)| matches!(outcome, StepOutcome::Failed { .. }))
            .map(|(id, _)| id.to_string());
        let canceled = signals.cancel.is_cancelled()
            || self.outcomes.values().any(|outcome| matches!(outcome, StepOutcome::Canceled));
        let outcome = match failed {
            Some(because_of) => StepOutcome::Skipped { because_of },
            None if canceled => StepOutcome::Canceled,
            None => return Vec::new(),
        };
        let unreachable = self.waiting.drain(..);
        unreachable.map(|step| Attempted::without_start(step.id.clone(), 0, outcome.clone())).collect()
    }
}

/// The outputs of what a step needs: a plan counts everything that its input refers to as needed.
pub(super) fn outputs_of(needs: &BTreeSet<StepId>, outcomes: &Outcomes) -> BTreeMap<StepId, serde_json::Value> {
    let output = |id: &StepId| match outcomes.get(id)? {
        StepOutcome::Succeeded { output, .. } => Some((id.clone(), output.clone())),
        StepOutcome::Failed { .. } | StepOutcome::Skipped { .. } | StepOutcome::Canceled => None,
    };
    needs.iter().filter_map(output).collect()
}

/// Journals how a step ended, together with the report of it. A step that may be repeated is not waited for:
/// nobody hears of its result before it is durable, and nothing that may not be repeated starts before.
pub(super) async fn finish(
    executor: &Executor,
    task: &Task,
    attempted: Attempted,
) -> Result<(StepId, StepOutcome, Option<Pending>), Interrupted> {
    let Attempted { step_id, attempt, outcome, duration_ms, cassette, repeatable } = attempted;
    let at = executor.clock.now();
    let event = StepEvent::Finished { step_id: step_id.clone(), attempt, result: outcome.clone(), duration_ms, at };
    let finished = Finished { step_id: step_id.clone(), attempt, outcome: outcome.clone(), event, cassette };
    let pending = executor.journal.finish_step(&task.task_id, finished).await.map_err(Interrupted::Journal)?;
    if repeatable {
        return Ok((step_id, outcome, Some(pending)));
    }
    pending.durable().await.map_err(Interrupted::Journal)?;
    Ok((step_id, outcome, None))
}
