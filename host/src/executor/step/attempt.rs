//! One attempt: its calls share one time, one log and one progress.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use fettle_model::{cassette, digest::Digest, settlement::Settlement};
use tokio::sync::watch;

use super::Application;
use crate::{
    capabilities::report::Report,
    executor::journal::{JournalError, Kept, Recorder, Subject},
    sandbox::{Call, Spent, Tape, bindings::exports::fettle::step::step::Context, tape},
};

/// What an attempt is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It looks, and has changed nothing.
    Looking,
    /// It finds out what became of an earlier attempt.
    Settling,
    /// It may change something.
    Running,
}

/// One attempt.
pub(super) struct Attempt<'a> {
    pub(super) number: u32,
    pub(super) input: &'a str,
    /// When the part of it began whose time is limited.
    began: Mutex<Instant>,
    pub(super) recorder: Recorder,
    spent: Spent,
    report: Report,
    tape: Tape,
    phase: watch::Sender<Phase>,
    settlement: Mutex<Option<Settlement>>,
}

impl<'a> Attempt<'a> {
    pub(super) fn start(application: &Application<'_>, number: u32, input: &'a str) -> Self {
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
        Self {
            number,
            input,
            began: Mutex::new(Instant::now()),
            spent: Spent::default(),
            recorder,
            report,
            tape: Tape::record(&application.header(number, input), tape::BOUND),
            phase: watch::Sender::new(Phase::Looking),
            settlement: Mutex::default(),
        }
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    pub(super) fn is_in(&self, phase: Phase) -> bool {
        *self.phase.borrow() == phase
    }

    /// Waits while something is being found out.
    pub(super) async fn is_settled(&self) {
        let _ = self.phase.subscribe().wait_for(|phase| *phase != Phase::Settling).await;
    }

    /// The time that was spent on finding out is not that of what follows.
    pub(super) fn begin_anew(&self) {
        *self.began.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn elapsed(&self) -> Duration {
        self.began.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Keeps what was found out, until the attempt is over.
    pub(super) fn settle(&self, settlement: Settlement) {
        *self.settlement.lock().unwrap_or_else(PoisonError::into_inner) = Some(settlement);
    }

    /// What was found out.
    pub(super) fn settlement(&self) -> Option<Settlement> {
        self.settlement.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes what is left of the log. Answers the cassette.
    pub(super) async fn finish(self) -> Result<Option<Vec<u8>>, JournalError> {
        // Both say last how much they have dropped.
        self.report.denials().close();
        drop(self.report);
        self.recorder.finish().await?;
        Ok(self.tape.finish())
    }
}

impl Application<'_> {
    fn header(&self, attempt: u32, input: &str) -> cassette::Header {
        let Self { task, ready, .. } = self;
        cassette::Header {
            cassette: cassette::VERSION,
            component: ready.component.digest(),
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

    pub(super) fn kept(&self, attempt: u32, outcome: &'static str, content: Vec<u8>) -> Kept {
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

    /// A call of the attempt, within what is left of the step's time.
    pub(super) fn call(&self, attempt: &Attempt<'_>) -> Call {
        self.call_within(attempt, self.ready.planned.timeout, attempt.elapsed())
    }

    /// A call of the attempt that may take this long.
    pub(super) fn call_within(&self, attempt: &Attempt<'_>, timeout: Duration, elapsed: Duration) -> Call {
        let planned = &self.ready.planned;
        let context = Context {
            operation_id: self.task.operation_id.clone(),
            task_id: self.task.task_id.clone(),
            step_id: planned.id.to_string(),
            attempt: attempt.number,
            correlation_id: self.task.correlation_id.clone(),
        };
        let mark = format!("{}/{}/{}/{}", self.executor.host_id, self.task.task_id, planned.id, attempt.number);
        let prepared = self.ready.capabilities.prepare(attempt.report.clone(), &mark);
        // Whoever finds out what is true is not told to stop: it is bounded, and its answer is wanted.
        let capabilities = match attempt.is_in(Phase::Settling) {
            true => prepared,
            false => prepared.stopped_by(&self.signals.cancel),
        };
        let (spent, tape) = (attempt.spent.clone(), Some(attempt.tape.clone()));
        Call { context, capabilities, timeout, elapsed, spent, tape }
    }
}
