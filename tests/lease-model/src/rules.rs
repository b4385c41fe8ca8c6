//! How large a model is, and which protection is taken out of it.

/// How the clocks of plane and hosts run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clocks {
    /// Equally fast, whatever they show.
    Equal,
    /// Each as it likes: one may stand still while the other runs on.
    Free,
}

/// What may be done with a step after an interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Applied again without a question: a step that observes or converges.
    Repeatable,
    /// May not be repeated; its probe may know whether it happened.
    ConsumeProbed,
    /// May not be repeated, and nobody can tell whether it happened.
    Consume,
}

/// A protection that is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The store compares no epochs.
    EpochUnchecked,
    /// A new lease has the epoch of the one before.
    EpochReused,
    /// The store takes a result for a step that has one.
    ResultReplaced,
    /// The timer also ends the leases of tasks that are over.
    EndedExpires,
    /// The host starts steps without an answer to its acknowledgement and whatever time it is. This is what
    /// the host of today does.
    DeadlineIgnored,
    /// The host waits for the first answer, after each start too, and looks at no clock from then on.
    DeadlineNeverPasses,
    /// The host counts its lease from the answer that it got instead of from its question.
    DeadlineFromAnswer,
    /// The host journals that a step started after it has started it.
    JournaledLate,
    /// The host runs an interrupted step again whatever its effect.
    RepeatedUnasked,
}

/// The size of a model, and how it is broken.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The steps of each task.
    pub tasks: Vec<Vec<Effect>>,
    /// Machines that speak for the node. More than one: it was replaced or cloned while it was away.
    pub hosts: usize,
    /// Tasks that the node executes at once.
    pub slots: usize,
    /// No task is leased more often than this.
    pub leases: u8,
    /// Crashes of hosts and planes, counted together.
    pub crashes: u8,
    /// How clocks run.
    pub clocks: Clocks,
    /// Whether the operation may be canceled.
    pub cancels: bool,
    /// What is broken.
    pub faults: Vec<Fault>,
}

impl Rules {
    /// How long a held lease lasts, in ticks.
    pub const LEASE: u8 = 2;
    /// How long a lease may remain unacknowledged, in ticks.
    pub const ACKNOWLEDGE: u8 = 1;

    /// One host, one task.
    #[must_use]
    pub fn one_task(steps: &[Effect]) -> Self {
        Self {
            tasks: vec![steps.to_vec()],
            hosts: 1,
            slots: 2,
            leases: 2,
            crashes: 1,
            clocks: Clocks::Equal,
            cancels: true,
            faults: Vec::new(),
        }
    }

    /// The same with a protection taken out.
    #[must_use]
    pub fn with(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }
}
