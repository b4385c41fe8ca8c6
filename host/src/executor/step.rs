//! One step: probe, run, probe again; retry what is transient; after a crash, find out what happened.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use fettle_model::{
    cassette,
    descriptor::Effect,
    digest::Digest,
    expression,
    failure::{Failure, FailureClass},
    name::StepId,
    operation::StepOutcome,
    task::{StepEvent, Task},
};
use fettle_telemetry::span;
use serde_json::Value;

use super::{
    Executor, Interrupted, Signals, failure,
    journal::{AttemptState, Attempts, JournalError, Kept, Recorder, Subject},
    preflight::Ready,
    watch,
};
use crate::{
    capabilities::report::Report,
    sandbox::{Call, Observation, Spent, Tape, bindings::exports::fettle::step::step::Context, tape},
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

/// One attempt: its calls share one time, one log and one progress.
struct Attempt<'a> {
    number: u32,
    input: &'a str,
    began: Instant,
    spent: Spent,
    recorder: Recorder,
    report: Report,
    tape: Tape,
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
            component: ready.planned.component.digest,
        };
        let recorder = Recorder::start(executor.journal.clone(), subject);
        let report = Report::new(Arc::new(recorder.clone()), executor.clock.clone());
        let tape = Tape::record(&application.header(number, input), tape::BOUND);
        Self { number, input, began: Instant::now(), spent: Spent::default(), recorder, report, tape }
    }

    /// Writes what is left of the log. Answers the cassette.
    async fn finish(self) -> Result<Option<Vec<u8>>, JournalError> {
        // Both say last how much they have dropped.
        self.report.denials().close();
        drop(self.report);
        self.recorder.finish().await?;
        Ok(self.tape.finish())
    }
}

/// What one attempt came to.
enum Tried {
    Done { output: Value, changed: bool },
    Failed(Failure),
    Canceled,
}

impl Tried {
    const fn status(&self) -> &'static str {
        match self {
            Self::Done { .. } => "succeeded",
            Self::Failed(_) => "failed",
            Self::Canceled => "canceled",
        }
    }

    const fn failure(&self) -> Option<&Failure> {
        if let Self::Failed(failure) = self { Some(failure) } else { None }
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
    let mut interrupted = before.is_some_and(|before| before.state == AttemptState::Started);
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
        let (tried, cassette) = span::inside(&span, application.attempt(attempt, &input, interrupted)).await?;
        interrupted = false;
        let took = begin.elapsed();
        watch::attempt_ended(executor, (&ready.planned, attempt, &span), tried.status(), tried.failure(), took);
        drop(span);
        let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let outcome = match tried {
            Tried::Done { output, changed } => StepOutcome::Succeeded { output, changed },
            Tried::Canceled => StepOutcome::Canceled,
            Tried::Failed(failure) if failure.is_retryable() && attempt < ready.planned.retry.attempts => {
                if application.wait_for_retry(attempt, failure, cassette).await? {
                    continue;
                }
                return Ok(Attempted {
                    step_id,
                    attempt,
                    outcome: StepOutcome::Canceled,
                    duration_ms,
                    cassette: None,
                    repeatable,
                });
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

    /// Takes back what the step did, and journals it.
    pub(super) async fn undo(&self, outputs: &BTreeMap<StepId, Value>, output: &str) -> Result<(), Interrupted> {
        let Ok(input) = self.input(outputs) else { return Ok(()) };
        let (journal, step_id) = (&self.executor.journal, &self.ready.planned.id);
        journal.begin_undo(&self.task.task_id, step_id).await.map_err(Interrupted::Journal)?;
        let attempt = Attempt::start(self, 1, &input);
        let undone = self.ready.component.undo(self.call(&attempt), &input, Some(output)).await;
        let (said, outcome) = match undone {
            Ok(()) => ("undone, because a later step failed".to_owned(), "undone"),
            Err(failure) => (format!("could not be undone: {failure}"), "failed"),
        };
        attempt.recorder.say(self.executor.clock.now(), said);
        let recorded = attempt.finish().await.map_err(Interrupted::Journal)?;
        let cassette = recorded.map(|content| self.kept(1, outcome, content));
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

    /// Journals the start, then probes and runs.
    async fn attempt(&self, number: u32, input: &str, interrupted: bool) -> Result<(Tried, Option<Kept>), Interrupted> {
        let step_id = &self.ready.planned.id;
        let started = StepEvent::Started { step_id: step_id.clone(), attempt: number, at: self.executor.clock.now() };
        let start = self.executor.journal.start_attempt(&self.task.task_id, step_id, number, started);
        let start = start.await.map_err(Interrupted::Journal)?;
        // Looking twice harms nobody; everything else is known to have started before it does.
        if self.ready.loaded.descriptor.effect != Effect::Observe {
            start.durable().await.map_err(Interrupted::Journal)?;
        }
        let attempt = Attempt::start(self, number, input);
        let tried = tokio::select! {
            tried = self.converge(&attempt, interrupted) => Some(tried),
            () = self.signals.cancel.cancelled() => Some(Tried::Canceled),
            () = self.signals.put_down.cancelled() => None,
        };
        let recorded = attempt.finish().await.map_err(Interrupted::Journal)?;
        let outcome = match &tried {
            Some(tried) => tried.status(),
            None => "interrupted",
        };
        let cassette = recorded.map(|content| self.kept(number, outcome, content));
        match (tried, cassette) {
            (Some(tried), cassette) => Ok((tried, cassette)),
            (None, None) => Err(Interrupted::PutDown),
            (None, Some(cassette)) => {
                self.executor.journal.keep(&self.task.task_id, cassette).await.map_err(Interrupted::Journal)?;
                Err(Interrupted::PutDown)
            }
        }
    }

    fn header(&self, attempt: u32, input: &str) -> cassette::Header {
        let Self { task, ready, .. } = self;
        cassette::Header {
            cassette: cassette::VERSION,
            component: ready.component.digest,
            kind: ready.planned.kind.clone(),
            effect: ready.loaded.descriptor.effect,
            limits: ready.component.limits_digest(),
            changed_limits: ready.component.changed_limits(),
            context: cassette::Context {
                operation_id: task.operation_id.clone(),
                task_id: task.task_id.clone(),
                step_id: ready.planned.id.to_string(),
                attempt,
                correlation_id: task.correlation_id.clone(),
            },
            input: input.to_owned(),
        }
    }

    fn kept(&self, attempt: u32, outcome: &'static str, content: Vec<u8>) -> Kept {
        Kept {
            operation_id: self.task.operation_id.clone(),
            step_id: self.ready.planned.id.clone(),
            attempt,
            kind: self.ready.planned.kind.clone(),
            recorded_at: self.executor.clock.now(),
            outcome,
            failed: !matches!(outcome, "succeeded" | "undone"),
            digest: Digest::of(&content),
            content,
        }
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
            // Done already: by others, or by an attempt that did not live to say so.
            Observation::Satisfied(output) => return Ok((output, self.has_run.load(Ordering::Relaxed))),
            Observation::Unsatisfied(_) => {}
            Observation::Unknown(reason) => return Err(self.unknown(&reason)),
        }
        self.note_run(attempt.number).await?;
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
            tape: Some(attempt.tape.clone()),
        }
    }

    fn check_output(&self, output: &Value) -> Result<(), Failure> {
        self.ready.loaded.output.check(output).map_err(|violations| {
            let message =
                format!("the step answered JSON that breaks its own output schema: {violations}; fix the component");
            failure(FailureClass::Permanent, "step.invalid-output", message)
        })
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
            () = tokio::time::sleep(wait) => Ok(true),
            () = self.signals.cancel.cancelled() => Ok(false),
            () = self.signals.put_down.cancelled() => Err(Interrupted::PutDown),
        }
    }
}
