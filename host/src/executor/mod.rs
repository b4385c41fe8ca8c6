//! Executes one task: verify, plan, preflight, run the graph, journal everything.

mod component;
mod inquiry;
pub mod journal;
pub mod policies;
mod preflight;
mod run;
mod shelf;
mod step;
mod sweep;
mod undo;
pub(crate) mod watch;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fettle_model::{
    definition::Backoff,
    failure::{Failure, FailureClass},
    name::StepId,
    operation::StepOutcome,
    task::{Task, TaskOutcome},
};
use tokio_util::sync::CancellationToken;

pub use self::shelf::Shelf;
use self::{
    journal::{Journal, JournalError},
    policies::Policies,
    preflight::Prepared,
};
use crate::{
    capabilities::{
        Node, OfTask,
        credentials::{HandleKey, Issuer, Purse},
    },
    clock::Clock,
    metrics::HostMetrics,
    queue::Pressure,
    refusals::{About, Refusal, Refusals},
    sandbox::Sandbox,
};

/// How often a task is prepared before its registry counts as gone: for about two minutes.
const PREPARATIONS: u32 = 8;

/// How long a step that was asked to end may take, before it is stopped.
pub const CANCEL_GRACE: Duration = Duration::from_secs(10);

/// What is added to a failure that keeps a resumed task from being prepared.
const NOT_UNDONE: &str = "; the task had begun on this node, and what it changed there was neither undone nor swept";

/// Everything that executing a task needs.
#[derive(Clone)]
pub struct Executor {
    /// Runs components.
    pub sandbox: Sandbox,
    /// What was fetched, verified and compiled.
    pub shelf: Shelf,
    /// What the node has to give.
    pub node: Node,
    /// Written before and after each attempt.
    pub journal: Journal,
    /// The time.
    pub clock: Clock,
    /// Steps of one task at once.
    pub concurrency: usize,
    /// How long a running step may take to end by itself after its operation was canceled.
    pub cancel_grace: Duration,
    /// Marks the processes of this host.
    pub host_id: Arc<str>,
    /// Who waits for anything of this node.
    pub pressure: Pressure,
    /// What is counted.
    pub metrics: HostMetrics,
    /// What is not done for the plane.
    pub refusals: Refusals,
    /// Which policy bundles count.
    pub policies: Policies,
    /// What the handles of credentials are authenticated with.
    pub handles: HandleKey,
    /// Keeps every other host out of the data directory.
    pub lock: Arc<std::fs::File>,
}

/// Why a task was put down without an outcome.
#[derive(Debug, thiserror::Error)]
pub enum Interrupted {
    /// The host stops, or the lease is gone. The journal knows how far the task was.
    #[error("the task was put down; it resumes from the journal")]
    PutDown,
    /// The journal cannot be written, so nothing may be started.
    #[error("the journal failed")]
    Journal(#[source] JournalError),
}

/// How a running task is told to end.
#[derive(Clone, Default)]
pub struct Signals {
    /// The operation was canceled.
    pub cancel: CancellationToken,
    /// The host is about to stop: steps that run may end, no other is started.
    pub drain: CancellationToken,
    /// The host stops or lost the lease: put the task down where it is.
    pub put_down: CancellationToken,
}

impl Executor {
    /// Executes a task to its end, from wherever the journal says it is. Its credentials come from `issuer`, and are
    /// wiped when this ends, however it ends.
    ///
    /// # Errors
    /// When it was put down, or the journal cannot be written.
    pub async fn execute(
        &self,
        task: &Task,
        signals: &Signals,
        issuer: Arc<dyn Issuer>,
    ) -> Result<TaskOutcome, Interrupted> {
        let shared = OfTask {
            purse: Arc::new(Purse::new(self.handles.clone(), task.task_id.clone(), issuer)),
            activator: Arc::new(policies::OfTask { executor: self.clone(), task: task.clone() }),
        };
        let progress = self.journal.progress(&task.task_id).await.map_err(Interrupted::Journal)?;
        if progress.canceled {
            signals.cancel.cancel();
        }
        let begun = progress.has_begun();
        let prepared = tokio::select! {
            prepared = self.prepare(task, &shared) => prepared,
            // A task that has begun is prepared all the same: there may be something to undo and to sweep.
            () = signals.cancel.cancelled(), if !begun => return Ok(TaskOutcome::Canceled),
            () = signals.put_down.cancelled() => return Err(Interrupted::PutDown),
        };
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(mut failure) => {
                if !failure.is_retryable() {
                    self.refuse(&Refusal { code: &failure.code, reason: &failure.message, about: About::task(task) });
                }
                if begun {
                    failure.message.push_str(NOT_UNDONE);
                }
                return Ok(TaskOutcome::Failed { failure, step_id: None });
            }
        };
        tracing::Span::current().record("operation_type", prepared.graph.operation_type.as_str());
        if !task.inquire.is_empty() {
            return inquiry::answer(self, task, &prepared, progress, signals).await;
        }
        let outcomes = tokio::select! {
            biased;
            outcomes = run::graph(self, task, &prepared, progress, signals) => outcomes?,
            error = self.note_cancel(task, signals) => return Err(Interrupted::Journal(error)),
        };
        let outcome = verdict(&outcomes, signals);
        if outcome != TaskOutcome::Succeeded {
            sweep::unfinished_files(&prepared).await;
        }
        Ok(outcome)
    }

    /// Does not do what the plane asks, and writes down why.
    pub(crate) fn refuse(&self, refusal: &Refusal<'_>) {
        self.metrics.refusals.with([refusal.code]).inc();
        self.refusals.note(refusal, self.clock.now());
    }

    /// Journals a cancel when it comes: after a crash nothing is done again that should end. Ends only with an error.
    async fn note_cancel(&self, task: &Task, signals: &Signals) -> JournalError {
        signals.cancel.cancelled().await;
        match self.journal.cancel_task(&task.task_id).await {
            Ok(()) => std::future::pending().await,
            Err(error) => error,
        }
    }

    /// Fetches, verifies and links; a registry that is away for a moment is waited for.
    async fn prepare(&self, task: &Task, shared: &OfTask) -> Result<Prepared, Failure> {
        let backoff = Backoff::default();
        for attempt in 1..PREPARATIONS {
            match preflight::prepare(self, task, shared).await {
                Err(failure) if failure.is_retryable() => {
                    tracing::warn!(
                        task_id = task.task_id,
                        reason = failure.message,
                        "a task cannot be prepared now; trying again"
                    );
                    tokio::time::sleep(backoff.wait_after(attempt)).await;
                }
                prepared => return prepared,
            }
        }
        preflight::prepare(self, task, shared).await
    }
}

/// What the steps' outcomes make of the task.
fn verdict(outcomes: &BTreeMap<StepId, StepOutcome>, signals: &Signals) -> TaskOutcome {
    let failed = outcomes.iter().find_map(|(id, outcome)| match outcome {
        StepOutcome::Failed { failure } => Some((id, failure)),
        StepOutcome::Succeeded { .. } | StepOutcome::Skipped { .. } | StepOutcome::Canceled => None,
    });
    let canceled =
        signals.cancel.is_cancelled() || outcomes.values().any(|outcome| matches!(outcome, StepOutcome::Canceled));
    match failed {
        Some((id, failure)) => TaskOutcome::Failed { failure: failure.clone(), step_id: Some(id.clone()) },
        None if canceled => TaskOutcome::Canceled,
        None => TaskOutcome::Succeeded,
    }
}

fn failure(class: FailureClass, code: &str, message: impl Into<String>) -> Failure {
    Failure::new(class, code, message)
}
