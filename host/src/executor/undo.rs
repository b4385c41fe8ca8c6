//! Taking back what a task has changed, in reverse order, after it has failed.

use std::collections::{BTreeMap, BTreeSet};

use fettle_model::{name::StepId, operation::StepOutcome, task::Task};

use super::{Executor, Interrupted, Signals, preflight::Prepared, step::Application};

/// Undoes the steps that changed something and were not undone before, in reverse order of the plan. What
/// cannot be undone is said in the step's log; the task has failed already.
///
/// Each is journaled before and after. One that a crash interrupts is undone once more: an undo must bear
/// that.
pub(super) async fn all(
    executor: &Executor,
    task: &Task,
    prepared: &Prepared,
    outcomes: &BTreeMap<StepId, StepOutcome>,
    undone: &BTreeSet<StepId>,
    signals: &Signals,
) -> Result<(), Interrupted> {
    for planned in prepared.graph.steps.iter().rev().filter(|planned| !undone.contains(&planned.id)) {
        let Some(StepOutcome::Succeeded { output, changed: true }) = outcomes.get(&planned.id) else { continue };
        let Some(ready) = prepared.steps.get(&planned.id).filter(|ready| ready.loaded.descriptor.undoes) else {
            continue;
        };
        let outputs = outcomes.iter().filter_map(|(id, outcome)| match outcome {
            StepOutcome::Succeeded { output, .. } => Some((id.clone(), output.clone())),
            StepOutcome::Failed { .. } | StepOutcome::Skipped { .. } | StepOutcome::Canceled => None,
        });
        let application = Application::new(executor, task, ready, signals);
        application.undo(&outputs.collect(), &output.to_string()).await?;
    }
    Ok(())
}
