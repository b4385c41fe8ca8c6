//! Everything that plane, hosts and network know at one moment.

use std::collections::BTreeSet;

use crate::rules::Rules;

/// One moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The plane.
    pub plane: Plane,
    /// The machines that speak for the node.
    pub hosts: Vec<Host>,
    /// Every call that was ever sent. None is taken out: each may be lost, delayed and repeated.
    pub network: BTreeSet<Message>,
    /// How many crashes may still happen.
    pub crashes: u8,
    /// What was seen to go wrong; nothing acts on it.
    pub seen: Seen,
}

/// A lease as those name it who act under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lease {
    /// What it is fenced by.
    pub epoch: u8,
    /// The how-maniest lease of its task it is. The protocol does not know this; laws are stated with it.
    pub number: u8,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It succeeded on this machine; its result is unlike that of any other.
    Done {
        /// The machine.
        by: usize,
    },
    /// It was interrupted, and nobody can tell whether it happened.
    Interrupted,
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ending {
    /// Every step succeeded.
    Succeeded,
    /// A step did not.
    Failed,
    /// Somebody asked for it.
    Canceled,
}

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// To be leased.
    Ready,
    /// Leased.
    Leased,
    /// Over.
    Ended(Ending),
}

/// A row of the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Task {
    /// Where it is.
    pub status: Status,
    /// Its newest lease.
    pub lease: Lease,
    /// Whether that lease arrived.
    pub acknowledged: bool,
    /// Ticks until the lease can expire.
    pub left: u8,
    /// Whether it should be canceled.
    pub cancel_requested: bool,
    /// The accepted result of each step.
    pub accepted: Vec<Option<Outcome>>,
}

/// The plane: its rows survive a crash, its stream does not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plane {
    /// Whether it runs.
    pub up: bool,
    /// Its rows.
    pub tasks: Vec<Task>,
    /// The stream of the node.
    pub stream: Option<Stream>,
}

/// The pull stream of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stream {
    /// The machine that opened it.
    pub host: usize,
    /// Slots that the host said are free.
    pub free: usize,
    /// Leases on their way: task, lease, and the results that travel with it.
    pub leases: Vec<(usize, Lease, Vec<bool>)>,
}

/// A machine: its journal survives a crash, its workers do not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    /// Whether it runs.
    pub up: bool,
    /// What is on its disk of each task.
    pub journal: Vec<Option<Entry>>,
    /// What it works on.
    pub workers: Vec<Option<Worker>>,
    /// Steps whose effect happened on this machine; what a probe looks at.
    pub happened: Vec<Vec<bool>>,
}

/// A task in a journal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Its newest lease.
    pub lease: Lease,
    /// Results that came with its first lease.
    pub accepted: Vec<bool>,
    /// How far each step is.
    pub steps: Vec<Progress>,
    /// How it ended.
    pub ending: Option<Ending>,
}

/// How far a step is, as the journal knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Progress {
    /// Nothing is known.
    Untouched,
    /// It started.
    Started,
    /// It ended.
    Over(Outcome),
}

/// A task on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Worker {
    /// Under which lease.
    pub lease: Lease,
    /// Results that came with the lease it was started by.
    pub accepted: Vec<bool>,
    /// Ticks until the host's own deadline; no step starts at 0.
    pub left: u8,
    /// The step that runs, and whether its effect has happened.
    pub running: Option<(usize, bool)>,
    /// An acknowledgement or an extension whose answer is waited for.
    pub call: Option<Call>,
    /// Whether it was told to cancel.
    pub canceled: bool,
}

/// A call whose answer is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// The lease it is about.
    pub lease: Lease,
    /// Ticks since it was sent.
    pub age: u8,
    /// The answer on its way back: the verdict, and whether the task should be canceled.
    pub answer: Option<(Verdict, bool)>,
}

/// What the plane says of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It is held.
    Accepted,
    /// It is not the newest, or expired before it arrived.
    Stale,
    /// The task is over.
    Ended,
}

/// A call of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Message {
    /// Who sent it.
    pub host: usize,
    /// Of which task.
    pub task: usize,
    /// Under which lease.
    pub lease: Lease,
    /// What it says.
    pub says: Says,
}

/// What a call says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Says {
    /// The lease arrived, or should last longer. The store does the same for both.
    Hold,
    /// A step ended.
    Finished(usize, Outcome),
    /// The task ended.
    End(Ending),
}

/// What was seen to go wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is the breach of a law of its own")]
pub struct Seen {
    /// A result was accepted for a step that had one.
    pub accepted_twice: bool,
    /// An accepted result was exchanged for another.
    pub result_changed: bool,
    /// Something was accepted that was said under a lease that is not the newest.
    pub old_lease_believed: bool,
    /// A task that was over was ready again.
    pub revived: bool,
    /// A step started after its host's own deadline.
    pub started_late: bool,
    /// A step started under a lease that the plane had ended.
    pub started_without_lease: bool,
    /// The effect of a step that may not be repeated happened twice on one machine.
    pub repeated: bool,
}

impl State {
    /// Nothing was leased so far, and nobody is connected.
    #[must_use]
    pub fn initial(rules: &Rules) -> Self {
        let task = |steps: &Vec<_>| Task {
            status: Status::Ready,
            lease: Lease { epoch: 0, number: 0 },
            acknowledged: false,
            left: 0,
            cancel_requested: false,
            accepted: vec![None; steps.len()],
        };
        let host = Host {
            up: true,
            journal: vec![None; rules.tasks.len()],
            workers: vec![None; rules.tasks.len()],
            happened: rules.tasks.iter().map(|steps| vec![false; steps.len()]).collect(),
        };
        Self {
            plane: Plane { up: true, tasks: rules.tasks.iter().map(task).collect(), stream: None },
            hosts: vec![host; rules.hosts],
            network: BTreeSet::new(),
            crashes: rules.crashes,
            seen: Seen::default(),
        }
    }
}

impl Task {
    /// Whether it is over.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.status, Status::Ended(_))
    }
}

impl Host {
    pub(crate) fn busy(&self) -> usize {
        self.workers.iter().flatten().count()
    }
}
