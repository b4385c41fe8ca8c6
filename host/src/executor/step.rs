//! One step: probe, run, probe again; retry what is transient; find out what became of what nobody saw end.

mod attempt;
mod effect;
mod settle;
mod stop;

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use fettle_model::{
    descriptor::Effect,
    expression,
    failure::{Failure, FailureClass},
    name::StepId,
    operation::StepOutcome,
    settlement::{Finding, Interruption, Settlement},
    task::{StepEvent, Task},
};
use fettle_telemetry::span;
use serde_json::Value;

use self::{attempt::Attempt, settle::Unclear};
use super::{
    Executor, Interrupted, Signals, failure,
    journal::{AttemptState, Attempts, Kept},
    preflight::Ready,
    watch,
};

/// How a step ended.
pub(super) struct Attempted {
    pub(super) step_id: StepId,
    pub(super) attempt: u32,
    pub(super) outcome: StepOutcome,
    pub(super) duration_ms: u64,
    /// What the last attempt did.
    pub(super) cassette: Option<Kept>,
    /// Whether starting it once more would be harmless, so that nobody waits for the disk.
    pub(super) repeatable: bool,
}

/// One step of one task.
pub(super) struct Application<'a> {
    executor: &'a Executor,
    task: &'a Task,
    ready: &'a Ready,
    signals: &'a Signals,
    /// Whether an attempt got to `run`: what a later probe finds done may be its work.
    has_run: AtomicBool,
}

/// What one attempt came to.
enum Tried {
    Done {
        output: Value,
        changed: bool,
    },
    Failed(Failure),
    /// Nobody saw how it ended; the next attempt finds out.
    Unclear(Unclear),
    Canceled,
}

impl Tried {
    const fn status(&self) -> &'static str {
        match self {
            Self::Done { .. } => "succeeded",
            Self::Failed(_) => "failed",
            Self::Unclear(_) => "unclear",
            Self::Canceled => "canceled",
        }
    }

    const fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Failed(failure) => Some(failure),
            Self::Unclear(unclear) => Some(&unclear.failure),
            Self::Done { .. } | Self::Canceled => None,
        }
    }
}

/// Applies a step until it has succeeded, failed for good, or was canceled.
pub(super) async fn apply(
    executor: &Executor,
    task: &Task,
    ready: &Ready,
    before: Option<Attempts>,
    outputs: BTreeMap<StepId, Value>,
    signals: &Signals,
) -> Result<Attempted, Interrupted> {
    let has_run = AtomicBool::new(before.is_some_and(|before| before.ran));
    let application = Application { executor, task, ready, signals, has_run };
    let step_id = ready.planned.id.clone();
    let mut attempt = before.map_or(0, |before| before.last);
    let mut unclear = application.left_unclear(before);
    let repeatable = ready.loaded.descriptor.effect == Effect::Observe;
    // What was trusted when the task began may have been denied since.
    let trusted = executor.shelf.component(&ready.planned.component).await;
    let input = match trusted.and_then(|_| application.input(&outputs)) {
        Ok(input) => input,
        Err(failure) => return Ok(Attempted::without_start(step_id, attempt, StepOutcome::Failed { failure })),
    };
    loop {
        attempt += 1;
        let begin = Instant::now();
        let span = watch::attempt_span(&ready.planned, attempt);
        let (tried, cassette) = span::inside(&span, application.attempt(attempt, &input, unclear.take())).await?;
        let took = begin.elapsed();
        watch::attempt_ended(executor, (&ready.planned, attempt, &span), tried.status(), tried.failure(), took);
        drop(span);
        let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let outcome = match tried {
            Tried::Done { output, changed } => StepOutcome::Succeeded { output, changed },
            Tried::Canceled => StepOutcome::Canceled,
            Tried::Unclear(next) => {
                application.leave_open(attempt, &next.failure, cassette).await?;
                unclear = Some(next);
                continue;
            }
            Tried::Failed(failure) if failure.is_retryable() && attempt < ready.planned.retry.attempts => {
                if application.wait_for_retry(attempt, failure, cassette).await? {
                    continue;
                }
                let outcome = StepOutcome::Canceled;
                return Ok(Attempted { step_id, attempt, outcome, duration_ms, cassette: None, repeatable });
            }
            Tried::Failed(failure) => StepOutcome::Failed { failure },
        };
        return Ok(Attempted { step_id, attempt, outcome, duration_ms, cassette, repeatable });
    }
}

impl Attempted {
    /// A step that ended without another start.
    pub(super) const fn without_start(step_id: StepId, attempt: u32, outcome: StepOutcome) -> Self {
        Self { step_id, attempt, outcome, duration_ms: 0, cassette: None, repeatable: false }
    }
}

impl<'a> Application<'a> {
    /// A step that has not run so far.
    pub(super) const fn new(executor: &'a Executor, task: &'a Task, ready: &'a Ready, signals: &'a Signals) -> Self {
        Self { executor, task, ready, signals, has_run: AtomicBool::new(false) }
    }

    /// What is to be found out before the step may start: whether it happened that an attempt began and nobody
    /// knows how it ended, or that somebody asks.
    fn left_unclear(&self, before: Option<Attempts>) -> Option<Unclear> {
        if self.task.inquire.contains(&self.ready.planned.id) {
            return Some(Unclear::inquiry());
        }
        let interrupted = before.is_some_and(|before| before.state == AttemptState::Started);
        let may_have_changed = match self.ready.loaded.descriptor.effect {
            Effect::Observe => false,
            Effect::Converge => self.has_run.load(Ordering::Relaxed),
            Effect::Consume => true,
        };
        (interrupted && may_have_changed).then(Unclear::host_stopped)
    }

    /// Takes back what the step did, and journals it.
    pub(super) async fn undo(&self, outputs: &BTreeMap<StepId, Value>, output: &str) -> Result<(), Interrupted> {
        let Ok(input) = self.input(outputs) else { return Ok(()) };
        let (journal, step_id) = (&self.executor.journal, &self.ready.planned.id);
        journal.begin_undo(&self.task.task_id, step_id).await.map_err(Interrupted::Journal)?;
        let attempt = Attempt::start(self, 1, &input);
        let undone = self.ready.component.undo(self.call(&attempt), &input, Some(output)).await;
        let cause = match self.signals.cancel.is_cancelled() {
            true => Interruption::Canceled,
            false => Interruption::LaterFailure,
        };
        let (finding, said, outcome) = match undone {
            Ok(()) if cause == Interruption::Canceled => {
                (Finding::Undone, "undone, because the operation was canceled".to_owned(), "undone")
            }
            Ok(()) => (Finding::Undone, "undone, because a later step failed".to_owned(), "undone"),
            Err(failure) => (Finding::Finished, format!("could not be undone: {failure}"), "failed"),
        };
        attempt.recorder.say(self.executor.clock.now(), said.clone());
        let recorded = attempt.finish().await.map_err(Interrupted::Journal)?;
        let cassette = recorded.map(|content| self.kept(1, outcome, content));
        let settlement = Settlement { cause, finding, needs_person: false, probes: 0, decided_by: None, message: said };
        self.settled(1, settlement).await?;
        journal.finish_undo(&self.task.task_id, step_id, cassette).await.map_err(Interrupted::Journal)
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
        self.ready.loaded.input.check(&input).map_err(|violations| {
            failure(
                FailureClass::InvalidInput,
                "input.schema",
                format!("the input of step `{}` breaks the schema of `{}`: {violations}", planned.id, planned.kind),
            )
        })?;
        Ok(input.to_string())
    }

    /// Journals the start, then probes and runs, or finds out what became of an earlier attempt.
    async fn attempt(
        &self,
        number: u32,
        input: &str,
        unclear: Option<Unclear>,
    ) -> Result<(Tried, Option<Kept>), Interrupted> {
        let step_id = &self.ready.planned.id;
        let started = StepEvent::Started { step_id: step_id.clone(), attempt: number, at: self.executor.clock.now() };
        let start = self.executor.journal.start_attempt(&self.task.task_id, step_id, number, started);
        let start = start.await.map_err(Interrupted::Journal)?;
        // Looking twice harms nobody; everything else is known to have started before it does.
        if self.ready.loaded.descriptor.effect != Effect::Observe {
            start.durable().await.map_err(Interrupted::Journal)?;
        }
        let attempt = Attempt::start(self, number, input);
        let tried = self.until_stopped(&attempt, unclear).await;
        let settlement = attempt.settlement();
        let recorded = attempt.finish().await.map_err(Interrupted::Journal)?;
        let outcome = tried.as_ref().map_or("interrupted", Tried::status);
        let cassette = recorded.map(|content| self.kept(number, outcome, content));
        let Some(tried) = tried else {
            if let Some(cassette) = cassette {
                self.executor.journal.keep(&self.task.task_id, cassette).await.map_err(Interrupted::Journal)?;
            }
            return Err(Interrupted::PutDown);
        };
        if let Some(settlement) = settlement {
            self.settled(number, settlement).await?;
        }
        Ok((tried, cassette))
    }

    /// Journals what was found out, and the report of it.
    async fn settled(&self, attempt: u32, settlement: Settlement) -> Result<(), Interrupted> {
        let step_id = self.ready.planned.id.clone();
        tracing::info!(
            %step_id,
            attempt_number = attempt,
            cause = settlement.cause.name(),
            finding = settlement.finding.name(),
            probes = settlement.probes,
            "it was found out what became of a step"
        );
        let event = StepEvent::Settled { step_id, attempt, settlement };
        self.executor.journal.append(&self.task.task_id, vec![event]).await.map_err(Interrupted::Journal)
    }

    /// Journals that nobody saw how an attempt ended. To the journal it has started and nothing more is known: after
    /// a crash it is asked about all the same.
    async fn leave_open(&self, attempt: u32, failure: &Failure, cassette: Option<Kept>) -> Result<(), Interrupted> {
        let step_id = &self.ready.planned.id;
        let event = StepEvent::Retrying { step_id: step_id.clone(), attempt, failure: failure.clone(), wait_ms: 0 };
        let journal = &self.executor.journal;
        journal
            .leave_attempt_open(&self.task.task_id, step_id, attempt, event, cassette)
            .await
            .map_err(Interrupted::Journal)
    }

    /// Waits before the next attempt; false when the operation was canceled meanwhile.
    async fn wait_for_retry(
        &self,
        attempt: u32,
        failure: Failure,
        cassette: Option<Kept>,
    ) -> Result<bool, Interrupted> {
        let wait = self.ready.planned.retry.backoff.wait_after(attempt);
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let step_id = self.ready.planned.id.clone();
        let event = StepEvent::Retrying { step_id, attempt, failure, wait_ms };
        self.executor
            .journal
            .fail_attempt(&self.task.task_id, &self.ready.planned.id, attempt, event, cassette)
            .await
            .map_err(Interrupted::Journal)?;
        tokio::select! {
            () = tokio::time::sleep(wait) => return Ok(true),
            () = self.signals.put_down.cancelled() => return Err(Interrupted::PutDown),
            () = self.signals.cancel.cancelled() => {}
        }
        let message =
            "the attempt before had failed, and the operation was canceled before another was made".to_owned();
        let settlement = Settlement {
            cause: Interruption::Canceled,
            finding: Finding::NotDone,
            needs_person: false,
            probes: 0,
            decided_by: None,
            message,
        };
        self.settled(attempt, settlement).await?;
        Ok(false)
    }
}
