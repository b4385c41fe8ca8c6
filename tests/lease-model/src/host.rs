//! What a host does: its journal, its workers, its steps.

use crate::{
    rules::{Effect, Fault, Rules},
    state::{Call, Ending, Entry, Lease, Message, Outcome, Progress, Says, State, Verdict, Worker},
};

impl Worker {
    const fn new(lease: Lease, accepted: Vec<bool>) -> Self {
        Self { lease, accepted, left: 0, running: None, call: None, canceled: false }
    }
}

impl Entry {
    fn has_failed(&self) -> bool {
        self.steps.contains(&Progress::Over(Outcome::Interrupted))
    }

    fn is_done(&self, step: usize, worker: &Worker) -> bool {
        matches!(self.steps[step], Progress::Over(Outcome::Done { .. })) || worker.accepted[step]
    }

    /// The one step that can start: steps need each other in order.
    fn next(&self, worker: &Worker) -> Option<usize> {
        (0..self.steps.len()).find(|step| !self.is_done(*step, worker)).filter(|_| !self.has_failed())
    }
}

impl State {
    /// What a host works on, and what its journal says of it.
    pub(crate) fn work(&self, host: usize, task: usize) -> Option<(&Worker, &Entry)> {
        let machine = &self.hosts[host];
        machine.workers[task].as_ref().zip(machine.journal[task].as_ref())
    }

    fn work_mut(&mut self, host: usize, task: usize) -> Option<(&mut Worker, &mut Entry)> {
        let machine = &mut self.hosts[host];
        machine.workers[task].as_mut().zip(machine.journal[task].as_mut())
    }

    fn send(&mut self, host: usize, task: usize, lease: Lease, says: Says) {
        self.network.insert(Message { host, task, lease, says });
    }

    /// The worker ends, and the plane hears of the free slot.
    fn put_down(&mut self, host: usize, task: usize, rules: &Rules) {
        self.hosts[host].workers[task] = None;
        let free = rules.slots.saturating_sub(self.hosts[host].busy());
        if let Some(stream) = self.plane.stream.as_mut().filter(|stream| stream.host == host) {
            stream.free = free;
        }
    }

    fn forget(&mut self, host: usize, task: usize, rules: &Rules) {
        self.hosts[host].journal[task] = None;
        self.put_down(host, task, rules);
    }

    /// Journals a lease, starts or renews the worker, acknowledges.
    pub(crate) fn lease_arrives(&mut self) {
        let Some(stream) = &mut self.plane.stream else { return };
        let host = stream.host;
        let (task, lease, accepted) = stream.leases.remove(0);
        let steps = vec![Progress::Untouched; accepted.len()];
        let machine = &mut self.hosts[host];
        let entry =
            machine.journal[task].get_or_insert(Entry { lease, accepted: accepted.clone(), steps, ending: None });
        entry.lease = entry.lease.max(lease);
        let worker = machine.workers[task].get_or_insert(Worker::new(lease, accepted));
        worker.lease = worker.lease.max(lease);
        worker.call = Some(Call { lease, age: 0, answer: None });
        self.send(host, task, lease, Says::Hold);
    }

    pub(crate) fn extends(&mut self, host: usize, task: usize) {
        let Some((worker, _)) = self.work_mut(host, task) else { return };
        let lease = worker.lease;
        worker.call = Some(Call { lease, age: 0, answer: None });
        self.send(host, task, lease, Says::Hold);
    }

    pub(crate) fn answer_arrives(&mut self, host: usize, task: usize, rules: &Rules) {
        let Some((worker, _)) = self.work_mut(host, task) else { return };
        let Some(Call { lease, age, answer: Some((verdict, canceled)) }) = worker.call.take() else { return };
        worker.canceled |= canceled;
        let current = lease == worker.lease;
        match verdict {
            Verdict::Accepted if current => {
                let spent = if rules.has(Fault::DeadlineFromAnswer) { 0 } else { age };
                worker.left = worker.left.max(Rules::LEASE.saturating_sub(spent));
            }
            Verdict::Stale if current => self.put_down(host, task, rules),
            Verdict::Ended => self.forget(host, task, rules),
            Verdict::Accepted | Verdict::Stale => {}
        }
    }

    pub(crate) fn call_fails(&mut self, host: usize, task: usize) {
        if let Some((worker, _)) = self.work_mut(host, task) {
            worker.call = None;
        }
    }

    pub(crate) fn cancel_arrives(&mut self, host: usize, task: usize) {
        if let Some((worker, _)) = self.work_mut(host, task) {
            worker.canceled = true;
        }
    }

    /// The step that may start now, and whether it was interrupted before.
    pub(crate) fn startable(&self, host: usize, task: usize, rules: &Rules) -> Option<(usize, bool)> {
        let (worker, entry) = self.work(host, task)?;
        let free = worker.running.is_none() && !worker.canceled && entry.ending.is_none();
        let in_time = worker.left > 0 || rules.has(Fault::DeadlineIgnored);
        let step = entry.next(worker).filter(|_| free && in_time)?;
        Some((step, entry.steps[step] == Progress::Started))
    }

    pub(crate) fn starts(&mut self, host: usize, task: usize, step: usize, unknown: bool, rules: &Rules) {
        let happened = self.hosts[host].happened[task][step];
        let Some((worker, entry)) = self.work_mut(host, task) else { return };
        let (late, lease) = (worker.left == 0, worker.lease);
        let interrupted = entry.steps[step] == Progress::Started && !rules.has(Fault::RepeatedUnasked);
        if !rules.has(Fault::JournaledLate) {
            entry.steps[step] = Progress::Started;
        }
        match rules.tasks[task][step] {
            Effect::Repeatable => worker.running = Some((step, true)),
            Effect::Consume if interrupted => entry.steps[step] = Progress::Over(Outcome::Interrupted),
            Effect::ConsumeProbed if interrupted && unknown => {
                entry.steps[step] = Progress::Over(Outcome::Interrupted);
            }
            Effect::ConsumeProbed if interrupted && happened => {
                entry.steps[step] = Progress::Over(Outcome::Done { by: host });
            }
            Effect::Consume | Effect::ConsumeProbed => worker.running = Some((step, false)),
        }
        self.seen.started_late |= late;
        self.seen.started_without_lease |= Self::time_proves_leases(rules) && !self.holds(task, lease);
    }

    pub(crate) fn journals_start(&mut self, host: usize, task: usize) {
        let Some((worker, entry)) = self.work_mut(host, task) else { return };
        if let Some((step, _)) = worker.running {
            entry.steps[step] = Progress::Started;
        }
    }

    pub(crate) fn happens(&mut self, host: usize, task: usize) {
        let Some((Worker { running: Some((step, happened)), .. }, _)) = self.work_mut(host, task) else { return };
        *happened = true;
        let step = *step;
        let before = std::mem::replace(&mut self.hosts[host].happened[task][step], true);
        self.seen.repeated |= before;
    }

    pub(crate) fn finishes(&mut self, host: usize, task: usize) {
        let Some((worker, entry)) = self.work_mut(host, task) else { return };
        if let Some((step, _)) = worker.running.take() {
            entry.steps[step] = Progress::Over(Outcome::Done { by: host });
        }
    }

    pub(crate) fn reports(&mut self, host: usize, task: usize, step: usize) {
        let Some((worker, entry)) = self.work_mut(host, task) else { return };
        let Progress::Over(outcome) = entry.steps[step] else { return };
        let lease = worker.lease;
        self.send(host, task, lease, Says::Finished(step, outcome));
    }

    /// How the task ends as it is now; a cancel stops what runs.
    pub(crate) fn ending(&self, host: usize, task: usize) -> Option<Ending> {
        let (worker, entry) = self.work(host, task).filter(|(_, entry)| entry.ending.is_none())?;
        let all_done = (0..entry.steps.len()).all(|step| entry.is_done(step, worker));
        if entry.has_failed() {
            return Some(Ending::Failed);
        }
        if worker.canceled {
            return Some(Ending::Canceled);
        }
        all_done.then_some(Ending::Succeeded)
    }

    pub(crate) fn ends(&mut self, host: usize, task: usize) {
        let ending = self.ending(host, task);
        if let Some((worker, entry)) = self.work_mut(host, task) {
            worker.running = None;
            entry.ending = ending;
        }
    }

    /// Whether the plane has stored every result that this host has.
    pub(crate) fn all_stored(&self, host: usize, task: usize) -> bool {
        let stored = &self.plane.tasks[task].accepted;
        self.work(host, task).is_some_and(|(_, entry)| {
            entry.steps.iter().zip(stored).all(|(step, stored)| !matches!(step, Progress::Over(_)) || stored.is_some())
        })
    }

    pub(crate) fn tells_end(&mut self, host: usize, task: usize) {
        let Some((worker, Entry { ending: Some(ending), .. })) = self.work(host, task) else { return };
        let (lease, ending) = (worker.lease, *ending);
        self.send(host, task, lease, Says::End(ending));
    }

    pub(crate) fn hears_end(&mut self, host: usize, task: usize, rules: &Rules) {
        self.forget(host, task, rules);
    }

    pub(crate) fn host_crashes(&mut self, host: usize) {
        self.crashes -= 1;
        let machine = &mut self.hosts[host];
        machine.up = false;
        machine.workers.fill(None);
        self.plane.stream.take_if(|stream| stream.host == host);
    }

    pub(crate) fn host_starts(&mut self, host: usize) {
        let machine = &mut self.hosts[host];
        machine.up = true;
        for (worker, entry) in machine.workers.iter_mut().zip(&machine.journal) {
            *worker = entry.as_ref().map(|entry| Worker::new(entry.lease, entry.accepted.clone()));
        }
    }

    pub(crate) fn host_ticks(&mut self, host: usize, rules: &Rules) {
        let spent = u8::from(!rules.has(Fault::DeadlineNeverPasses));
        for worker in self.hosts[host].workers.iter_mut().flatten() {
            worker.left = worker.left.saturating_sub(spent);
            if let Some(call) = &mut worker.call {
                call.age = (call.age + 1).min(Rules::LEASE);
            }
        }
    }
}
