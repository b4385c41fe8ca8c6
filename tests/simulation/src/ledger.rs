//! What the store was seen to do, held against the laws while it happens.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use fettle_model::{
    operation::StepOutcome,
    task::{Epoch, StepEvent},
};
use fettle_store::{
    id::{NodeId, TaskId},
    task::{Lease, LeaseKey, Report, Verdict},
};
use serde_json::Value;

use crate::trace::Trace;

/// What extending a lease is called here.
pub(crate) const EXTENSION: &str = "extension";

/// What is known of leases and results, beside the store.
pub(crate) struct Ledger {
    trace: Arc<Trace>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    epochs: BTreeMap<TaskId, (Epoch, NodeId)>,
    joined: BTreeSet<String>,
    certificates: u64,
    leased_again: u64,
    stale: u64,
    reports_refused: u64,
    repeated: u64,
    finished: BTreeMap<(TaskId, String), Value>,
}

impl Ledger {
    /// Nothing was seen.
    #[must_use]
    pub(crate) fn new(trace: &Arc<Trace>) -> Arc<Self> {
        Arc::new(Self { trace: Arc::clone(trace), inner: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node joined.
    pub(crate) fn joined(&self, name: &str) {
        self.lock().joined.insert(name.to_owned());
    }

    /// A certificate was given.
    pub(crate) fn certified(&self) {
        self.lock().certificates += 1;
    }

    /// How many certificates were given.
    pub(crate) fn certificates(&self) -> u64 {
        self.lock().certificates
    }

    /// How many nodes have joined.
    pub(crate) fn nodes(&self) -> usize {
        self.lock().joined.len()
    }

    /// How often a task was leased again, something stale was refused, and a result was told again.
    pub(crate) fn seen(&self) -> (u64, u64, u64) {
        let inner = self.lock();
        (inner.leased_again, inner.stale, inner.repeated)
    }

    /// How many reports were not taken.
    pub(crate) fn reports_refused(&self) -> u64 {
        self.lock().reports_refused
    }

    /// The epoch of a task's newest lease.
    pub(crate) fn epoch(&self, task: TaskId) -> Option<Epoch> {
        self.lock().epochs.get(&task).map(|(epoch, _)| *epoch)
    }

    /// Leases were given to a node.
    pub(crate) fn leased(&self, node: NodeId, leases: &[Lease]) {
        for lease in leases {
            let before = self.lock().epochs.insert(lease.task_id, (lease.epoch, node));
            self.trace.note(&format!("{} is leased under {}", lease.task_id, lease.epoch.0));
            let Some((epoch, owner)) = before else { continue };
            self.lock().leased_again += 1;
            if epoch >= lease.epoch {
                self.trace.broken(format!("task {} was leased again without a newer epoch", lease.task_id));
            }
            if owner != node {
                self.trace.broken(format!("task {} of one node was leased to another", lease.task_id));
            }
        }
    }

    /// Something was said under a lease, and answered.
    pub(crate) fn answered(&self, what: &str, lease: LeaseKey, verdict: Verdict) {
        self.trace.note(&format!("{what} of {} under {}: {verdict:?}", lease.task_id, lease.epoch.0));
        if verdict != Verdict::Accepted {
            let mut inner = self.lock();
            inner.stale += 1;
            // An extension that crosses the end of its task is answered that it is over, and nothing is lost.
            inner.reports_refused += u64::from(what != EXTENSION);
            return;
        }
        let newest = self.lock().epochs.get(&lease.task_id).copied();
        if newest != Some((lease.epoch, lease.node_id)) {
            self.trace.broken(format!(
                "{what} of task {} was accepted under epoch {}, and its newest lease is {newest:?}",
                lease.task_id, lease.epoch.0
            ));
        }
    }

    /// A report was answered.
    pub(crate) fn reported(&self, report: &Report, verdict: Verdict) {
        self.answered("report", report.lease, verdict);
        let StepEvent::Finished { step_id, result: StepOutcome::Succeeded { output, .. }, .. } = &report.event else {
            return;
        };
        if verdict == Verdict::Accepted {
            let key = (report.lease.task_id, step_id.to_string());
            let mut inner = self.lock();
            let repeated = inner.finished.entry(key).or_insert_with(|| output.clone()) != output;
            inner.repeated += u64::from(repeated);
        }
    }

    /// The results that were told first, by task and step.
    pub(crate) fn results(&self) -> BTreeMap<(TaskId, String), Value> {
        self.lock().finished.clone()
    }
}
