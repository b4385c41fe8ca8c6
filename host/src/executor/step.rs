//! One step: probe, run, probe again; retry what is transient; after a crash, find out what happened.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use fettle_model::{
    descriptor::Effect,
    expression,
    failure::{Failure, FailureClass},
    name::StepId,
    operation::StepOutcome,
    schema,
    task::{StepEvent, Task},
};
use serde_json::Value;

use super::{
    Executor, Interrupted, Signals, failure,
    journal::{AttemptState, JournalError, Recorder, Subject},
    preflight::{Prepared, Ready},
};
use crate::{
    capabilities::report::Report,
    sandbox::{Call, Observation, Spent, bindings::exports::fettle::step::step::Context},
};

/// How a step ended.
pub(super) struct Attempted {
    pub(super) step_id: StepId,
    pub(super) attempt: u32,
    pub(super) outcome: StepOutcome,
    pub(super) duration_ms: u64,
}

/// One step of one task.
struct Application<'a> {
    executor: &'a Executor,
    task: &'a Task,
    ready: &'a Ready,
    signals: &'a Signals,
}

/// One attempt: its calls share one time, one log and one progress.
struct Attempt<'a> {
    number: u32,
    input: &'a str,
    began: Instant,
    spent: Spent,
    recorder: Recorder,
    report: Report,
}

impl<'a> Attempt<'a> {
    fn start(application: &Application<'_>, number: u32, input: &'a str) -> Self {
        let Application { executor, task, ready, .. } = application;
        let subject = Subject {
            operation_id: task.operation_id.clone(),
            task_id: task.task_id.clone(),
            correlation_id: task.correlation_id.clone(),
            step_id: ready.planned.id.clone(),
            attempt: number,
            component: ready.component.digest,
        };
        let recorder = Recorder::start(executor.journal.clone(), subject);
        let report = Report::new(Arc::new(recorder.clone()), executor.clock.clone());
        Self { number, input, began: Instant::now(), spent: Spent::default(), recorder, report }
    }

    /// Writes what is left of the log.
    async fn finish(self) -> Result<(), JournalError> {
        // Both say last how much they have dropped.
        self.report.denials().close();
        drop(self.report);
        self.recorder.finish().await
    }
}

/// What one attempt came to.
enum Tried {
    Done { output: Value, changed: bool },
    Failed(Failure),
    Canceled,
}

/// Applies a step until it has succeeded, failed for good, or was canceled.
pub(super) async fn apply(
    executor: &Executor,
    task: &Task,
    ready: &Ready,
    outputs: BTreeMap<StepId, Value>,
    signals: &Signals,
) -> Result<Attempted, Interrupted> {
    let application = Application { executor, task, ready, signals };
    let step_id = ready.planned.id.clone();
    let (mut attempt, interrupted) = application.where_it_was().await?;
    // What was trusted when the task began may have been denied since.
    let trusted = executor.shelf.component(&ready.planned.component).await;
    let input = match trusted.and_then(|_| application.input(&outputs)) {
        Ok(input) => input,
        Err(failure) => {
            return Ok(Attempted { step_id, attempt, outcome: StepOutcome::Failed { failure }, duration_ms: 0 });
        }
    };
    let mut interrupted = interrupted;
    loop {
        attempt += 1;
        let begin = Instant::now();
        let tried = application.attempt(attempt, &input, interrupted).await?;
        interrupted = false;
        let duration_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        let outcome = match tried {
            Tried::Done { output, changed } => StepOutcome::Succeeded { output, changed },
            Tried::Canceled => StepOutcome::Canceled,
            Tried::Failed(failure) if failure.is_retryable() && attempt < ready.planned.retry.attempts => {
                if application.wait_for_retry(attempt, failure).await? {
                    continue;
                }
                StepOutcome::Canceled
            }
            Tried::Failed(failure) => StepOutcome::Failed { failure },
        };
        return Ok(Attempted { step_id, attempt, outcome, duration_ms });
    }
}

impl Application<'_> {
    /// Attempts made before, and whether the last of them was interrupted in the middle.
    async fn where_it_was(&self) -> Result<(u32, bool), Interrupted> {
        let last = self
            .executor
            .journal
            .last_attempt(&self.task.task_id, &self.ready.planned.id)
            .await
            .map_err(Interrupted::Journal)?;
        Ok(match last {
            None => (0, false),
            Some((attempt, AttemptState::Failed)) => (attempt, false),
            Some((attempt, AttemptState::Started)) => (attempt, true),
        })
    }

    fn input(&self, outputs: &BTreeMap<StepId, Value>) -> Result<String, Failure> {
        let planned = &self.ready.planned;
        let input = expression::resolve(&planned.with, &self.task.inputs, outputs).map_err(|error| {
            failure(
                FailureClass::InvalidInput,
                "input.expression",
                format!("the input of step `{}` cannot be computed: {error}", planned.id),
            )
        })?;
        schema::validate(&self.ready.loaded.descriptor.input_schema, &input).map_err(|violations| {
            failure(
                FailureClass::InvalidInput,
                "input.schema",
                format!("the input of step `{}` breaks the schema of `{}`: {violations}", planned.id, planned.kind),
            )
        })?;
        Ok(input.to_string())
    }

    /// Journals the start, then probes and runs.
    async fn attempt(&self, attempt: u32, input: &str, interrupted: bool) -> Result<Tried, Interrupted> {
        let step_id = self.ready.planned.id.clone();
        let started = StepEvent::Started { step_id, attempt, at: self.executor.clock.now() };
        self.executor
            .journal
            .start_attempt(&self.task.task_id, &self.ready.planned.id, attempt, started)
            .await
            .map_err(Interrupted::Journal)?;
        let attempt = Attempt::start(self, attempt, input);
        let tried = tokio::select! {
            tried = self.converge(&attempt, interrupted) => Some(tried),
            () = self.signals.cancel.cancelled() => Some(Tried::Canceled),
            () = self.signals.put_down.cancelled() => None,
        };
        attempt.finish().await.map_err(Interrupted::Journal)?;
        tried.ok_or(Interrupted::PutDown)
    }

    async fn converge(&self, attempt: &Attempt<'_>, interrupted: bool) -> Tried {
        let result = match self.ready.loaded.descriptor.effect {
            Effect::Observe => self.run(attempt).await.map(|output| (output, false)),
            Effect::Consume if interrupted => self.recover(attempt).await,
            Effect::Consume => self.run(attempt).await.map(|output| (output, true)),
            Effect::Converge => self.probe_run_probe(attempt).await,
        };
        let checked = result.and_then(|(output, changed)| self.check_output(&output).map(|()| (output, changed)));
        match checked {
            Ok((output, changed)) => Tried::Done { output, changed },
            Err(failure) => Tried::Failed(failure),
        }
    }

    async fn probe_run_probe(&self, attempt: &Attempt<'_>) -> Result<(Value, bool), Failure> {
        match self.probe(attempt).await? {
            Observation::Satisfied(output) => return Ok((output, false)),
            Observation::Unsatisfied(_) => {}
            Observation::Unknown(reason) => return Err(self.unknown(&reason)),
        }
        self.run(attempt).await?;
        match self.probe(attempt).await? {
            Observation::Satisfied(output) => Ok((output, true)),
            Observation::Unknown(reason) => Err(self.unknown(&reason)),
            Observation::Unsatisfied(difference) => {
                let message =
                    format!("the step ran without an error, and what it should have done is not so: {difference}");
                Err(failure(FailureClass::Permanent, "step.not-converged", message))
            }
        }
    }

    /// A step that may not be repeated was interrupted: only its own probe can say what happened.
    async fn recover(&self, attempt: &Attempt<'_>) -> Result<(Value, bool), Failure> {
        let reason = match self.ready.loaded.descriptor.probes {
            false => "it has no probe".to_owned(),
            true => match self.probe(attempt).await? {
                Observation::Satisfied(output) => return Ok((output, true)),
                Observation::Unsatisfied(_) => {
                    return self.run(attempt).await.map(|output| (output, true));
                }
                Observation::Unknown(reason) => reason,
            },
        };
        let message = format!(
            "the host stopped while this step ran, the step may not be repeated, and nothing can tell whether its effect happened ({reason}); look at the node, then retry or cancel the operation"
        );
        Err(failure(FailureClass::Unknown, "step.interrupted", message))
    }

    fn unknown(&self, reason: &str) -> Failure {
        let message = format!(
            "step `{}` cannot tell whether its work is done: {reason}; a person must look",
            self.ready.planned.id
        );
        failure(FailureClass::Unknown, "step.unknown", message)
    }

    async fn probe(&self, attempt: &Attempt<'_>) -> Result<Observation, Failure> {
        self.ready.component.probe(self.call(attempt), attempt.input).await
    }

    async fn run(&self, attempt: &Attempt<'_>) -> Result<Value, Failure> {
        self.ready.component.run(self.call(attempt), attempt.input).await
    }

    fn call(&self, attempt: &Attempt<'_>) -> Call {
        let planned = &self.ready.planned;
        let context = Context {
            operation_id: self.task.operation_id.clone(),
            task_id: self.task.task_id.clone(),
            step_id: planned.id.to_string(),
            attempt: attempt.number,
            correlation_id: self.task.correlation_id.clone(),
        };
        let mark = format!("{}/{}/{}/{}", self.executor.host_id, self.task.task_id, planned.id, attempt.number);
        let capabilities = self.ready.capabilities.prepare(attempt.report.clone(), &mark);
        Call {
            context,
            capabilities,
            timeout: planned.timeout,
            elapsed: attempt.began.elapsed(),
            spent: attempt.spent.clone(),
        }
    }

    fn check_output(&self, output: &Value) -> Result<(), Failure> {
        schema::validate(&self.ready.loaded.descriptor.output_schema, output).map_err(|violations| {
            let message =
                format!("the step answered JSON that breaks its own output schema: {violations}; fix the component");
            failure(FailureClass::Permanent, "step.invalid-output", message)
        })
    }

    /// Waits before the next attempt; false when the operation was canceled meanwhile.
    async fn wait_for_retry(&self, attempt: u32, failure: Failure) -> Result<bool, Interrupted> {
        let wait = self.ready.planned.retry.backoff.wait_after(attempt);
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let step_id = self.ready.planned.id.clone();
        let event = StepEvent::Retrying { step_id, attempt, failure, wait_ms };
        self.executor
            .journal
            .fail_attempt(&self.task.task_id, &self.ready.planned.id, attempt, event)
            .await
            .map_err(Interrupted::Journal)?;
        tokio::select! {
            () = tokio::time::sleep(wait) => Ok(true),
            () = self.signals.cancel.cancelled() => Ok(false),
            () = self.signals.put_down.cancelled() => Err(Interrupted::PutDown),
        }
    }
}

/// Undoes the steps that changed something, in reverse order of the plan. What cannot be undone is
/// said in the step's log; the task has failed already.
pub(super) async fn undo_all(
    executor: &Executor,
    task: &Task,
    prepared: &Prepared,
    outcomes: &BTreeMap<StepId, StepOutcome>,
    signals: &Signals,
) -> Result<(), Interrupted> {
    for planned in prepared.plan.steps.iter().rev() {
        let Some(StepOutcome::Succeeded { output, changed: true }) = outcomes.get(&planned.id) else { continue };
        let Some(ready) = prepared.steps.get(&planned.id).filter(|ready| ready.loaded.descriptor.undoes) else {
            continue;
        };
        let application = Application { executor, task, ready, signals };
        let outputs = outcomes.iter().filter_map(|(id, outcome)| match outcome {
            StepOutcome::Succeeded { output, .. } => Some((id.clone(), output.clone())),
            StepOutcome::Failed { .. } | StepOutcome::Skipped { .. } | StepOutcome::Canceled => None,
        });
        let Ok(input) = application.input(&outputs.collect()) else { continue };
        let attempt = Attempt::start(&application, 1, &input);
        let undone = ready.component.undo(application.call(&attempt), &input, Some(&output.to_string())).await;
        attempt.recorder.say(
            executor.clock.now(),
            match undone {
                Ok(()) => "undone, because a later step failed".to_owned(),
                Err(failure) => format!("could not be undone: {failure}"),
            },
        );
        attempt.finish().await.map_err(Interrupted::Journal)?;
    }
    Ok(())
}
