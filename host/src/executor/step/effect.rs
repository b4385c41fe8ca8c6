//! What a step does by its effect, when nothing is left to be found out.

use std::sync::atomic::Ordering;

use fettle_model::{
    descriptor::Effect,
    failure::{Failure, FailureClass},
    settlement::Interruption,
};
use serde_json::Value;

use super::{
    Application, Tried,
    attempt::{Attempt, Phase},
    settle::Unclear,
};
use crate::{executor::failure, sandbox::Observation};

impl Application<'_> {
    /// Probes and runs, as the effect asks for.
    pub(super) async fn fresh(&self, attempt: &Attempt<'_>) -> Tried {
        match self.ready.loaded.descriptor.effect {
            Effect::Observe => self.tried(self.run(attempt).await.map(|output| (output, false))),
            Effect::Consume => self.run_once(attempt).await,
            Effect::Converge => match self.probe(attempt).await {
                Ok(Observation::Unsatisfied(_)) => self.run_and_probe(attempt).await,
                // Done already: by others, or by an attempt that did not live to say so.
                Ok(Observation::Satisfied(output)) => self.tried(Ok((output, self.has_run.load(Ordering::Relaxed)))),
                Ok(Observation::Unknown(reason)) => Tried::Failed(self.unknown(&reason)),
                Err(failure) => Tried::Failed(failure),
            },
        }
    }

    /// Runs what is known not to have happened.
    pub(super) async fn again(&self, attempt: &Attempt<'_>) -> Tried {
        match self.ready.loaded.descriptor.effect {
            Effect::Converge => self.run_and_probe(attempt).await,
            Effect::Observe | Effect::Consume => self.run_once(attempt).await,
        }
    }

    /// Runs what is never run twice without a look.
    async fn run_once(&self, attempt: &Attempt<'_>) -> Tried {
        if self.signals.cancel.is_cancelled() {
            return self.canceled_before(attempt);
        }
        attempt.enter(Phase::Running);
        self.has_run.store(true, Ordering::Relaxed);
        match self.run(attempt).await {
            Ok(output) => self.tried(Ok((output, true))),
            Err(failure) => self.after_run(attempt, failure),
        }
    }

    /// Runs, and believes only a probe.
    async fn run_and_probe(&self, attempt: &Attempt<'_>) -> Tried {
        if self.signals.cancel.is_cancelled() {
            return self.canceled_before(attempt);
        }
        if let Err(failure) = self.note_run(attempt.number).await {
            return Tried::Failed(failure);
        }
        attempt.enter(Phase::Running);
        if let Err(failure) = self.run(attempt).await {
            return self.after_run(attempt, failure);
        }
        match self.probe(attempt).await {
            Ok(Observation::Satisfied(output)) => self.tried(Ok((output, true))),
            Ok(Observation::Unknown(reason)) => self.after_run(attempt, self.unknown(&reason)),
            Ok(Observation::Unsatisfied(difference)) => {
                let message =
                    format!("the step ran without an error, and what it should have done is not so: {difference}");
                Tried::Failed(failure(FailureClass::Permanent, "step.not-converged", message))
            }
            Err(failure) => Tried::Failed(failure),
        }
    }

    /// A run that failed, and perhaps in the middle of what it does.
    fn after_run(&self, attempt: &Attempt<'_>, failure: Failure) -> Tried {
        let cause = if self.signals.cancel.is_cancelled() {
            Interruption::Canceled
        } else if failure.class == FailureClass::Unknown {
            Interruption::StepUnsure
        } else if was_stopped(&failure) {
            Interruption::StepStopped
        } else {
            return Tried::Failed(failure);
        };
        let again = is_worth_another_run(&failure) && attempt.number < self.ready.planned.retry.attempts;
        Tried::Unclear(Unclear { cause, failure, again })
    }

    /// Journals that something may change from now on. Where it can be undone, this is durable first: what a
    /// crash leaves behind is undone too.
    async fn note_run(&self, attempt: u32) -> Result<(), Failure> {
        self.has_run.store(true, Ordering::Relaxed);
        let noted = self.executor.journal.run_attempt(&self.task.task_id, &self.ready.planned.id, attempt).await;
        let written = match noted {
            Ok(pending) if self.ready.loaded.descriptor.undoes => pending.durable().await,
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        written.map_err(|error| failure(FailureClass::Transient, "host.journal", error.to_string()))
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

    /// A success counts when its output is what the step promised.
    pub(super) fn tried(&self, result: Result<(Value, bool), Failure>) -> Tried {
        let checked = result.and_then(|(output, changed)| self.check_output(&output).map(|()| (output, changed)));
        match checked {
            Ok((output, changed)) => Tried::Done { output, changed },
            Err(failure) => Tried::Failed(failure),
        }
    }

    fn check_output(&self, output: &Value) -> Result<(), Failure> {
        self.ready.loaded.output.check(output).map_err(|violations| {
            let message =
                format!("the step answered JSON that breaks its own output schema: {violations}; fix the component");
            failure(FailureClass::Permanent, "step.invalid-output", message)
        })
    }
}

/// Whether the host stopped the step, which so could not say how far it was.
fn was_stopped(failure: &Failure) -> bool {
    failure.code.starts_with("limit.") || matches!(failure.code.as_str(), "step.trapped" | "step.panicked")
}

/// Whether the same run may end otherwise: a step that took too long may not, one that takes too much memory will.
fn is_worth_another_run(failure: &Failure) -> bool {
    failure.class == FailureClass::Unknown || failure.code == crate::sandbox::WALL_CLOCK
}
