//! What can happen next.

use crate::state::Message;

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The plane leases a ready task to whoever has the node's stream.
    Lease {
        /// The task.
        task: usize,
    },
    /// The plane's timer ends a lease.
    Expire {
        /// Its task.
        task: usize,
    },
    /// Somebody cancels the operation.
    Cancel {
        /// Its task.
        task: usize,
    },
    /// A cancel arrives on the stream.
    CancelArrives {
        /// The task.
        task: usize,
    },
    /// The plane is killed.
    PlaneCrashes,
    /// The plane starts.
    PlaneStarts,
    /// A call arrives, for the first time or again.
    Arrives(Message),
    /// The stream breaks; leases on their way are lost.
    StreamBreaks,
    /// A host opens the stream and says what it holds.
    Connects {
        /// The machine.
        host: usize,
    },
    /// The next lease on the stream reaches the host, which journals it and acknowledges.
    LeaseArrives,
    /// A host asks for its lease to last longer.
    Extends {
        /// The machine.
        host: usize,
        /// The task.
        task: usize,
    },
    /// The answer to an acknowledgement or extension reaches the host.
    AnswerArrives {
        /// The machine.
        host: usize,
        /// The task.
        task: usize,
    },
    /// A call fails without an answer; the plane may have got it all the same.
    CallFails {
        /// The machine.
        host: usize,
        /// The task.
        task: usize,
    },
    /// A host journals that a step starts, and starts it. One that was interrupted is recovered first.
    Starts {
        /// The machine.
        host: usize,
        /// The task.
        task: usize,
        /// The step.
        step: usize,
        /// Whether a probe that is asked cannot tell.
        unknown: bool,
    },
    /// With `JournaledLate` only: the start is journaled.
    JournalsStart {
        /// The machine.
        host: usize,
        /// The task.
        task: usize,
    },
    /// The effect of the running step happens.
    Happens {
        /// The machine.
        host: usize,
        /// The task.
        task: usize,
    },
    /// The running step ends and is journaled.
    Finishes {
        /// The machine.
        host: usize,
        /// The task.
        task: usize,
    },
    /// A host reports how a step ended.
    Reports {
        /// The machine.
        host: usize,
        /// The task.
        task: usize,
        /// The step.
        step: usize,
    },
    /// A host journals how the task ended.
    Ends {
        /// The machine.
        host: usize,
        /// The task.
        task: usize,
    },
    /// A host tells the plane how the task ended.
    TellsEnd {
        /// The machine.
        host: usize,
        /// The task.
        task: usize,
    },
    /// A host hears that the task is over, and forgets it.
    HearsEnd {
        /// The machine.
        host: usize,
        /// The task.
        task: usize,
    },
    /// A host is killed.
    HostCrashes {
        /// The machine.
        host: usize,
    },
    /// A host starts, and resumes what its journal holds.
    HostStarts {
        /// The machine.
        host: usize,
    },
    /// Time passes for everybody.
    Tick,
    /// Time passes for the plane alone.
    PlaneTicks,
    /// Time passes for one host alone.
    HostTicks {
        /// The machine.
        host: usize,
    },
}
