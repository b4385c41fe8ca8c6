//! What is true of a step whose end nobody saw: a bounded number of probes, each bounded in time. What they prove
//! counts; where they prove nothing, a person decides.

use std::time::{Duration, Instant};

use fettle_model::{
    descriptor::Effect,
    failure::{Failure, FailureClass},
    settlement::{Finding, INTERRUPTED, Interruption, NOT_DONE, Settlement},
};
use serde_json::Value;

use super::{Application, Tried, attempt::Attempt};
use crate::{executor::failure, sandbox::Observation};

/// How often a probe is asked.
const TRIES: u32 = 4;
/// How long one may take, where its step is not given less.
const LONGEST: Duration = Duration::from_secs(60);
/// The wait after the first that proved nothing; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// Something that is to be found out before a step goes on.
pub(super) struct Unclear {
    /// Why nobody saw the end.
    pub(super) cause: Interruption,
    /// What the step fails with when its effect turns out not to have happened, and it is not run again.
    pub(super) failure: Failure,
    /// Whether it is run again then.
    pub(super) again: bool,
}

/// What the probes prove.
enum Truth {
    Done(Value),
    NotDone(String),
    Unknown(String),
    /// Nothing, for it failed each time.
    Failed(Failure),
}

impl Unclear {
    /// The host comes back, and the journal says that an attempt had started.
    pub(super) fn host_stopped() -> Self {
        let cause = Interruption::HostStopped;
        Self { cause, failure: failure(FailureClass::Permanent, NOT_DONE, cause.words()), again: true }
    }

    /// Somebody asks, and nothing is to be done.
    pub(super) fn inquiry() -> Self {
        let message = "the probe proves that this step did not happen; `fettle operation retry` runs it";
        let failure = failure(FailureClass::Permanent, NOT_DONE, message);
        Self { cause: Interruption::Inquiry, failure, again: false }
    }

    /// The step was stopped because the operation was canceled.
    pub(super) fn canceled() -> Self {
        let cause = Interruption::Canceled;
        Self { cause, failure: failure(FailureClass::Canceled, "step.canceled", cause.words()), again: false }
    }
}

impl Application<'_> {
    /// Finds out, and does what follows from it.
    pub(super) async fn settle(&self, attempt: &Attempt<'_>, unclear: Unclear) -> Tried {
        attempt.recorder.say(self.executor.clock.now(), format!("{}; finding out what is true", unclear.cause.words()));
        let (truth, probes) = self.find_out(attempt).await;
        let settlement = |finding, message: String, needs_person| Settlement {
            cause: unclear.cause,
            finding,
            needs_person,
            probes,
            decided_by: None,
            message,
        };
        let canceled = self.signals.cancel.is_cancelled() || unclear.cause == Interruption::Canceled;
        let repeats = self.may_be_repeated() && !canceled && unclear.cause != Interruption::Inquiry;
        match truth {
            // The next attempt looks before it does anything, as every attempt of such a step does.
            Truth::Failed(failure) if repeats => Tried::Failed(failure),
            Truth::Failed(failure) => {
                self.unknown_to_all(attempt, canceled, settlement, unclear.cause, &failure.to_string())
            }
            Truth::Done(output) => {
                let message = format!("{}, and the probe proves that it happened", unclear.cause.words());
                attempt.settle(settlement(Finding::Finished, message, false));
                self.tried(Ok((output, true)))
            }
            Truth::NotDone(difference) => {
                let again = unclear.again && !canceled;
                let next = if again { "; it is done now" } else { "" };
                let message = format!(
                    "{}, and the probe proves that it did not happen{next}: {difference}",
                    unclear.cause.words()
                );
                attempt.settle(settlement(Finding::NotDone, message, false));
                if again {
                    attempt.begin_anew();
                    return self.again(attempt).await;
                }
                if canceled { Tried::Canceled } else { Tried::Failed(unclear.failure) }
            }
            Truth::Unknown(reason) => self.unknown_to_all(attempt, canceled, settlement, unclear.cause, &reason),
        }
    }

    fn unknown_to_all(
        &self,
        attempt: &Attempt<'_>,
        canceled: bool,
        settlement: impl FnOnce(Finding, String, bool) -> Settlement,
        cause: Interruption,
        reason: &str,
    ) -> Tried {
        let message = self.ask_a_person(cause, reason);
        attempt.settle(settlement(Finding::Unknown, message.clone(), !self.may_be_repeated()));
        if canceled {
            return Tried::Canceled;
        }
        Tried::Failed(failure(FailureClass::Unknown, INTERRUPTED, message))
    }

    fn may_be_repeated(&self) -> bool {
        self.ready.loaded.descriptor.effect != Effect::Consume
    }

    fn ask_a_person(&self, cause: Interruption, reason: &str) -> String {
        let (operation, step) = (&self.task.operation_id, &self.ready.planned.id);
        let repeat = if self.may_be_repeated() { "" } else { ", the step may not be repeated" };
        format!(
            "{}{repeat}, and nothing can tell whether its effect happened ({reason}); look at the node, then say what is true \
             with `fettle operation recover {operation} --step {step}`, or ask again with `fettle operation force-probe {operation}`",
            cause.words()
        )
    }

    /// Asks the step's probe until it proves something. Answers how often it was asked.
    async fn find_out(&self, attempt: &Attempt<'_>) -> (Truth, u32) {
        if !self.ready.loaded.descriptor.probes {
            return (Truth::Unknown("it has no probe".to_owned()), 0);
        }
        let (mut tries, mut wait) = (0, FIRST_WAIT);
        loop {
            tries += 1;
            let timeout = self.ready.planned.timeout.min(LONGEST);
            let call = self.call_within(attempt, timeout, Duration::ZERO);
            let begin = Instant::now();
            let (truth, reason) = match self.ready.component.probe(call, attempt.input).await {
                Ok(Observation::Satisfied(output)) => return (Truth::Done(output), tries),
                Ok(Observation::Unsatisfied(difference)) => return (Truth::NotDone(difference), tries),
                Ok(Observation::Unknown(reason)) => (Truth::Unknown(reason.clone()), reason),
                Err(failure) => (Truth::Failed(failure.clone()), failure.to_string()),
            };
            let took = begin.elapsed().as_millis();
            let said = format!("the probe proves nothing (try {tries} of {TRIES}, {took} ms): {reason}");
            attempt.recorder.say(self.executor.clock.now(), said);
            if tries == TRIES {
                return (truth, tries);
            }
            tokio::time::sleep(wait).await;
            wait *= 2;
        }
    }
}
