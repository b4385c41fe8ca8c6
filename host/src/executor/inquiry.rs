//! A task that only asks: what became of steps of which nobody knows whether they happened.

use std::collections::BTreeMap;

use fettle_model::{
    failure::FailureClass,
    operation::StepOutcome,
    task::{Task, TaskOutcome},
};

use super::{Executor, Interrupted, Signals, failure, journal::Progress, preflight::Prepared, run, step};

/// Asks the probe of each step in question, and changes nothing on the node. The task succeeds when nothing of the
/// operation is left to do.
pub(super) async fn answer(
    executor: &Executor,
    task: &Task,
    prepared: &Prepared,
    progress: Progress,
    signals: &Signals,
) -> Result<TaskOutcome, Interrupted> {
    let mut known: BTreeMap<_, _> = progress.finished;
    for (id, output) in &task.accepted {
        known.entry(id.clone()).or_insert(StepOutcome::Succeeded { output: output.clone(), changed: false });
    }
    for planned in &prepared.graph.steps {
        if !task.inquire.contains(&planned.id) || known.contains_key(&planned.id) {
            continue;
        }
        if signals.drain.is_cancelled() || signals.put_down.is_cancelled() {
            return Err(Interrupted::PutDown);
        }
        let Some(ready) = prepared.steps.get(&planned.id) else { continue };
        let outputs = run::outputs_of(&planned.needs, &known);
        let before = progress.attempts.get(&planned.id).copied();
        let attempted = step::apply(executor, task, ready, before, outputs, signals).await?;
        let (id, outcome, pending) = run::finish(executor, task, attempted).await?;
        if let Some(pending) = pending {
            pending.durable().await.map_err(Interrupted::Journal)?;
        }
        known.insert(id, outcome);
    }
    Ok(verdict(prepared, &known))
}

fn verdict(prepared: &Prepared, known: &BTreeMap<fettle_model::name::StepId, StepOutcome>) -> TaskOutcome {
    let failed = known.iter().find_map(|(id, outcome)| match outcome {
        StepOutcome::Failed { failure } => Some((id, failure)),
        StepOutcome::Succeeded { .. } | StepOutcome::Skipped { .. } | StepOutcome::Canceled => None,
    });
    if let Some((id, failure)) = failed {
        return TaskOutcome::Failed { failure: failure.clone(), step_id: Some(id.clone()) };
    }
    let succeeded = |id| matches!(known.get(id), Some(StepOutcome::Succeeded { .. }));
    match prepared.graph.steps.iter().find(|step| !succeeded(&step.id)) {
        None => TaskOutcome::Succeeded,
        Some(next) => {
            let message = format!(
                "the probe proves that what was in question has happened, and step `{}` is still to be done; go on with \
                 `fettle operation retry`",
                next.id
            );
            TaskOutcome::Failed {
                failure: failure(FailureClass::Permanent, "operation.unfinished", message),
                step_id: None,
            }
        }
    }
}
