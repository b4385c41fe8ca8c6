//! One task on its way: executed, its lease extended, its events reported, its end told.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use fettle_model::task::{Epoch, Task, TaskOutcome};
use fettle_telemetry::{TraceParent, span};
use fettle_wire::node::{ExtendRequest, Verdict};
use tokio::{sync::watch, task::JoinSet};
use tracing::Span;

use super::{Agent, backoff, issue::FromPlane, report};
use crate::executor::{Interrupted, Signals, watch as watch_task};

/// How long a lease is taken to last until the plane has said it.
pub(super) const SHORTEST_LEASE: Duration = Duration::from_secs(3);

/// What the agent knows of a task on its way.
pub(super) struct Worker {
    pub(super) signals: Signals,
    epoch: watch::Sender<Epoch>,
    confirmed: watch::Sender<bool>,
    span: Span,
}

impl Worker {
    /// The plane has said that the lease is this host's.
    pub(super) fn confirm(&self) {
        self.confirmed.send_replace(true);
    }

    /// The plane leased the task again: go on under the newer epoch.
    pub(super) fn renew(&self, epoch: Epoch, place: Option<TraceParent>) {
        let renewed = self.epoch.send_if_modified(|known| {
            let newer = epoch > *known;
            *known = (*known).max(epoch);
            newer
        });
        if let Some(place) = place.filter(|_| renewed) {
            span::link(&self.span, place);
        }
    }
}

/// Starts a worker, from wherever the journal says the task is.
pub(super) fn start(
    agent: &Arc<Agent>,
    task: Task,
    (epoch, lease): (Epoch, Duration),
    outcome: Option<TaskOutcome>,
    tasks: &mut JoinSet<()>,
) {
    let signals = Signals::default();
    let epochs = watch::Sender::new(epoch);
    let epoch = epochs.subscribe();
    let confirmed = watch::Sender::new(false);
    let confirmation = confirmed.subscribe();
    let span = watch_task::task_span(&task);
    let place = span::begin(&span, place(&task));
    let worker = Worker { signals: signals.clone(), epoch: epochs, confirmed, span: span.clone() };
    agent.workers().insert(task.task_id.clone(), worker);
    let agent = Arc::clone(agent);
    let work = async move {
        let task_id = task.task_id.clone();
        let work = Work { agent: &agent, task: &task, epoch, confirmation, lease, signals };
        work.run(outcome).await;
        agent.workers().remove(&task_id);
        agent.ended.send_modify(|count| *count = count.wrapping_add(1));
    };
    tasks.spawn(span::within(span, place, work));
}

/// Where a task continues in a trace.
pub(super) fn place(task: &Task) -> Option<TraceParent> {
    task.trace_parent.as_deref().and_then(|text| text.parse().ok())
}

pub(super) struct Work<'a> {
    pub(super) agent: &'a Arc<Agent>,
    pub(super) task: &'a Task,
    pub(super) epoch: watch::Receiver<Epoch>,
    confirmation: watch::Receiver<bool>,
    pub(super) lease: Duration,
    pub(super) signals: Signals,
}

impl Work<'_> {
    async fn run(&self, outcome: Option<TaskOutcome>) {
        let (known, outcomes) = watch::channel(outcome.clone());
        let execute = async {
            if outcome.is_none() {
                match self.execute().await {
                    Some(outcome) => {
                        known.send_replace(Some(outcome));
                    }
                    None => return,
                }
            }
            // Nothing more to execute: the report decides when this ends.
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = execute => {}
            () = self.extend() => {}
            () = report::run(self, outcomes) => {}
        }
    }

    /// Executes to the end and journals it; none when the task was put down.
    async fn execute(&self) -> Option<TaskOutcome> {
        self.confirmed().await?;
        let _slot = self.agent.running.acquire().await.ok()?;
        let begin = Instant::now();
        let executor = &self.agent.executor;
        let issuer = Arc::new(FromPlane::new(self.agent, self.task, self.epoch.clone()));
        let outcome = match executor.execute(self.task, &self.signals, issuer).await {
            Ok(outcome) => outcome,
            Err(Interrupted::PutDown) => return None,
            Err(error @ Interrupted::Journal(_)) => {
                tracing::error!(
                    task_id = self.task.task_id,
                    error = &error as &dyn std::error::Error,
                    "the task was put down"
                );
                return None;
            }
        };
        watch_task::task_ended(executor, &outcome, begin.elapsed());
        match executor.journal.end_task(&self.task.task_id, &outcome).await {
            Ok(()) => Some(outcome),
            Err(error) => {
                tracing::error!(
                    task_id = self.task.task_id,
                    error = &error as &dyn std::error::Error,
                    "the end of the task could not be journaled"
                );
                None
            }
        }
    }

    /// Waits until the plane has said once that the task is this host's, before anything of it starts. A lease whose
    /// acknowledgement was lost may be over, and the task leased again or canceled: a step that may not be repeated would
    /// then happen twice. What was begun had been confirmed, and goes on however long the plane is away.
    async fn confirmed(&self) -> Option<()> {
        match self.agent.executor.journal.progress(&self.task.task_id).await {
            Ok(progress) if progress.has_begun() => return Some(()),
            Ok(_) => {}
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(task_id = self.task.task_id, error, "the task was put down");
                return None;
            }
        }
        let (mut waits, mut confirmation) = (backoff(), self.confirmation.clone());
        loop {
            let wait = waits.next().unwrap_or(Duration::from_secs(10));
            tokio::select! {
                said = confirmation.wait_for(|yes| *yes) => if said.is_ok() {
                    return Some(());
                },
                () = self.signals.put_down.cancelled() => return None,
                () = tokio::time::sleep(wait) => {}
            }
            let epoch = *self.epoch.borrow();
            match self.standing(epoch).await {
                Standing::Held(_) => return Some(()),
                Standing::Lost if *self.epoch.borrow() == epoch => {
                    self.put_down();
                    return None;
                }
                Standing::Ended => {
                    self.forget().await;
                    return None;
                }
                Standing::Lost | Standing::Unknown => {}
            }
        }
    }

    /// Makes the lease last; ends only when the plane says that it is lost.
    async fn extend(&self) {
        let mut lease = self.lease;
        loop {
            // Three tries within a lease: one that is lost on the way does not lose the lease.
            tokio::time::sleep(lease / 3).await;
            let epoch = *self.epoch.borrow();
            match self.standing(epoch).await {
                Standing::Held(longer) => lease = longer,
                Standing::Lost if *self.epoch.borrow() == epoch => return self.put_down(),
                Standing::Ended => return self.forget().await,
                // A plane that is away for a while is no reason to stop.
                Standing::Lost | Standing::Unknown => {}
            }
        }
    }

    /// Asks for the lease to last longer, and how it stands.
    pub(super) async fn standing(&self, epoch: Epoch) -> Standing {
        let (node_id, task_id) = (self.task.node_id.clone(), self.task.task_id.clone());
        let request = ExtendRequest { node_id, task_id, epoch: epoch.0 };
        match self.agent.client.clone().extend(request).await.map(tonic::Response::into_inner) {
            Ok(response) => {
                if response.canceled {
                    self.signals.cancel.cancel();
                }
                match response.verdict() {
                    Verdict::Accepted => Standing::Held(Duration::from_secs(response.lease_seconds.max(1).into())),
                    Verdict::Ended => Standing::Ended,
                    Verdict::Stale | Verdict::Refused | Verdict::Unspecified => Standing::Lost,
                }
            }
            Err(status) => {
                tracing::debug!(reason = status.message(), "a lease could not be extended");
                Standing::Unknown
            }
        }
    }

    /// The lease is lost: what runs is stopped, and the journal keeps how far it was.
    pub(super) fn put_down(&self) {
        tracing::warn!(task_id = self.task.task_id, "the lease is lost; the task is put down");
        let epoch = *self.epoch.borrow();
        self.agent.lost().insert(self.task.task_id.clone(), epoch);
        self.signals.put_down.cancel();
    }

    /// The task is over, whatever this host still knows of it.
    pub(super) async fn forget(&self) {
        self.signals.put_down.cancel();
        if let Err(error) = self.agent.executor.journal.forget(&self.task.task_id).await {
            let error = &error as &dyn std::error::Error;
            tracing::error!(task_id = self.task.task_id, error, "a finished task could not be forgotten");
        }
    }
}

/// How a lease stands with the plane.
pub(super) enum Standing {
    /// It lasts this long from now.
    Held(Duration),
    /// It is held under a newer epoch.
    Lost,
    /// The task is over.
    Ended,
    /// The plane did not answer.
    Unknown,
}
