//! What the plane does: its store, its timer, its stream.

use crate::{
    rules::{Clocks, Fault, Rules},
    state::{Ending, Lease, Message, Outcome, Says, State, Status, Stream, Task, Verdict},
};

/// How a lease that somebody names stands to its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    Current,
    Ended,
    Stale,
}

impl Task {
    pub(crate) fn fence(&self, epoch: u8, rules: &Rules) -> Fence {
        let same_epoch = epoch == self.lease.epoch || rules.has(Fault::EpochUnchecked);
        match self.status {
            _ if !same_epoch => Fence::Stale,
            Status::Leased => Fence::Current,
            Status::Ready => Fence::Stale,
            Status::Ended(_) => Fence::Ended,
        }
    }

    /// Acknowledges or extends.
    fn hold(&mut self, lease: Lease, rules: &Rules) -> Verdict {
        let same_epoch = lease.epoch == self.lease.epoch || rules.has(Fault::EpochUnchecked);
        match self.status {
            Status::Leased if same_epoch => self.keep(),
            Status::Ready if same_epoch && self.acknowledged => self.keep(),
            Status::Leased | Status::Ready => Verdict::Stale,
            Status::Ended(_) => Verdict::Ended,
        }
    }

    fn keep(&mut self) -> Verdict {
        self.status = Status::Leased;
        self.left = self.left.max(Rules::LEASE);
        self.acknowledged = true;
        Verdict::Accepted
    }

    /// Ready again, or over when it should be canceled anyway. The epoch stays.
    fn end_lease(&mut self) {
        self.left = 0;
        self.status = if self.cancel_requested { Status::Ended(Ending::Canceled) } else { Status::Ready };
    }

    fn end(&mut self, ending: Ending) {
        self.left = 0;
        self.status = Status::Ended(ending);
    }

    /// Whether this ending fits what is known.
    fn may_end(&self, ending: Ending) -> bool {
        match ending {
            Ending::Succeeded => self.accepted.iter().all(|result| matches!(result, Some(Outcome::Done { .. }))),
            Ending::Canceled => self.cancel_requested,
            Ending::Failed => true,
        }
    }

    pub(crate) fn can_expire(&self, rules: &Rules) -> bool {
        self.left == 0 && (self.status == Status::Leased || (self.is_over() && rules.has(Fault::EndedExpires)))
    }
}

impl State {
    pub(crate) fn can_lease(&self, task: usize, rules: &Rules) -> bool {
        let leased = self.plane.tasks.iter().filter(|task| task.status == Status::Leased).count();
        let task = &self.plane.tasks[task];
        self.plane.stream.as_ref().is_some_and(|stream| stream.free > 0)
            && leased < rules.slots
            && task.status == Status::Ready
            && task.lease.number < rules.leases
    }

    pub(crate) fn lease(&mut self, task: usize, rules: &Rules) {
        let row = &mut self.plane.tasks[task];
        row.status = Status::Leased;
        row.lease.number += 1;
        row.lease.epoch = if rules.has(Fault::EpochReused) { 1 } else { row.lease.epoch + 1 };
        row.acknowledged = false;
        row.left = Rules::ACKNOWLEDGE;
        let accepted = row.accepted.iter().map(|result| matches!(result, Some(Outcome::Done { .. }))).collect();
        if let Some(stream) = &mut self.plane.stream {
            stream.free -= 1;
            stream.leases.push((task, row.lease, accepted));
        }
    }

    pub(crate) fn expire(&mut self, task: usize) {
        let row = &mut self.plane.tasks[task];
        self.seen.revived |= row.is_over();
        row.end_lease();
    }

    pub(crate) fn cancel(&mut self, task: usize) {
        let row = &mut self.plane.tasks[task];
        match row.status {
            Status::Ready => row.end(Ending::Canceled),
            Status::Leased => row.cancel_requested = true,
            Status::Ended(_) => {}
        }
    }

    pub(crate) fn plane_crashes(&mut self) {
        self.plane.up = false;
        self.plane.stream = None;
        self.crashes -= 1;
    }

    /// Gives every lease its full length again.
    pub(crate) fn plane_starts(&mut self) {
        self.plane.up = true;
        for task in self.plane.tasks.iter_mut().filter(|task| task.status == Status::Leased) {
            task.left = task.left.max(Rules::LEASE);
        }
    }

    /// A host says what it holds: that is renewed, and the rest of its leases never arrived.
    pub(crate) fn connects(&mut self, host: usize, rules: &Rules) {
        let machine = &mut self.hosts[host];
        for (task, worker) in self.plane.tasks.iter_mut().zip(&mut machine.workers) {
            match (worker, task.status) {
                (Some(_), Status::Leased) => drop(task.keep()),
                (Some(worker), Status::Ended(_)) => worker.canceled = true,
                (None, Status::Leased) => task.end_lease(),
                (_, Status::Ready) | (None, Status::Ended(_)) => {}
            }
        }
        let free = rules.slots.saturating_sub(machine.busy());
        self.plane.stream = Some(Stream { host, free, leases: Vec::new() });
    }

    /// A call arrives. The answer to an acknowledgement or extension is on its way when somebody waits for it.
    pub(crate) fn arrives(&mut self, message: Message, rules: &Rules) {
        let Message { host, task, lease, says } = message;
        let row = &mut self.plane.tasks[task];
        let believed = match says {
            Says::Hold => {
                let verdict = row.hold(lease, rules);
                let canceled = verdict == Verdict::Accepted && row.cancel_requested;
                let worker = self.hosts[host].workers[task].as_mut();
                let waiting = worker.and_then(|worker| worker.call.as_mut());
                if let Some(call) = waiting.filter(|call| call.lease == lease && call.answer.is_none()) {
                    call.answer = Some((verdict, canceled));
                }
                verdict == Verdict::Accepted
            }
            Says::Finished(step, outcome) => {
                row.fence(lease.epoch, rules) == Fence::Current && self.accept(task, step, outcome, rules)
            }
            Says::End(ending) => {
                let ends = row.fence(lease.epoch, rules) == Fence::Current && row.may_end(ending);
                if ends {
                    row.end(ending);
                }
                ends
            }
        };
        self.seen.old_lease_believed |= believed && lease.number != self.plane.tasks[task].lease.number;
    }

    /// Stores a result of a step that has none.
    fn accept(&mut self, task: usize, step: usize, outcome: Outcome, rules: &Rules) -> bool {
        let result = &mut self.plane.tasks[task].accepted[step];
        if result.is_some() && !rules.has(Fault::ResultReplaced) {
            return false;
        }
        self.seen.accepted_twice |= result.is_some();
        self.seen.result_changed |= result.is_some_and(|before| before != outcome);
        *result = Some(outcome);
        true
    }

    pub(crate) fn plane_ticks(&mut self) {
        for task in &mut self.plane.tasks {
            task.left = task.left.saturating_sub(1);
        }
    }

    /// Whether a host may conclude from its own clock that the plane has not ended its lease: clocks run
    /// equally fast, and no other machine speaks for the node.
    pub(crate) fn time_proves_leases(rules: &Rules) -> bool {
        rules.clocks == Clocks::Equal && rules.hosts == 1
    }

    pub(crate) fn holds(&self, task: usize, lease: Lease) -> bool {
        let row = &self.plane.tasks[task];
        row.status == Status::Leased && row.lease == lease
    }
}
