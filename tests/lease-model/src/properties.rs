//! What always holds, and what can be reached at all.

use stateright::Property;

use crate::{
    model::LeaseModel,
    plane::Fence,
    state::{Ending, Host, Progress, State, Status, Task},
};

/// What holds in every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Law {
    /// A step has one accepted result at most.
    OneResult,
    /// An accepted result never changes.
    ResultStays,
    /// Nothing is accepted that was said under a lease that is not the newest.
    OldLeasesAreStale,
    /// Results are accepted under one epoch at most.
    OneEpoch,
    /// What is over stays over.
    OverIsOver,
    /// No step starts after its host's own deadline.
    DeadlineHolds,
    /// No step starts under a lease that the plane has ended. Claimed where clocks run equally fast and one
    /// machine speaks for the node.
    StartsUnderLease,
    /// What may not be repeated happens once on a machine.
    HappensOnce,
}

/// What a model must be able to reach, lest its laws hold for want of anything that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reached {
    /// A task succeeds.
    Success,
    /// A task succeeds under its second lease.
    SuccessAfterExpiry,
    /// A task is canceled.
    Cancellation,
    /// A step runs though its lease has expired.
    RunsAfterExpiry,
    /// A step runs while the plane is down.
    RunsWithoutPlane,
    /// A step is found interrupted after a crash.
    Interruption,
    /// The plane counts a lease as held of which no host has heard: it renewed what a host named, under an
    /// epoch whose lease was lost on its way. It is one that expires, and no state is a trap for it.
    HeldUnheard,
}

impl Law {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::OneResult,
        Self::ResultStays,
        Self::OldLeasesAreStale,
        Self::OneEpoch,
        Self::OverIsOver,
        Self::DeadlineHolds,
        Self::StartsUnderLease,
        Self::HappensOnce,
    ];

    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OneResult => "a step has one accepted result at most",
            Self::ResultStays => "an accepted result never changes",
            Self::OldLeasesAreStale => "nothing is accepted under an old lease",
            Self::OneEpoch => "one epoch at most is valid",
            Self::OverIsOver => "what is over stays over",
            Self::DeadlineHolds => "no step starts after its host's own deadline",
            Self::StartsUnderLease => "no step starts under a lease that the plane has ended",
            Self::HappensOnce => "what may not be repeated happens once on a machine",
        }
    }
}

impl Reached {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Success,
        Self::SuccessAfterExpiry,
        Self::Cancellation,
        Self::RunsAfterExpiry,
        Self::RunsWithoutPlane,
        Self::Interruption,
        Self::HeldUnheard,
    ];

    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "a task succeeds",
            Self::SuccessAfterExpiry => "a task succeeds under its second lease",
            Self::Cancellation => "a task is canceled",
            Self::RunsAfterExpiry => "a step runs though its lease has expired",
            Self::RunsWithoutPlane => "a step runs while the plane is down",
            Self::Interruption => "a step is found interrupted after a crash",
            Self::HeldUnheard => "a lease counts as held of which no host has heard",
        }
    }
}

fn any_task(state: &State, status: Status) -> bool {
    state.plane.tasks.iter().any(|task| task.status == status)
}

fn runs(state: &State, task: usize) -> bool {
    state.hosts.iter().filter_map(|host| host.workers[task].as_ref()).any(|worker| worker.running.is_some())
}

fn one_epoch(model: &LeaseModel, state: &State) -> bool {
    state.plane.tasks.iter().all(|task| {
        let valid = |epoch: &u8| task.fence(*epoch, &model.rules) == Fence::Current;
        (1..=task.lease.epoch).filter(valid).count() <= 1
    })
}

fn interrupted(state: &State) -> bool {
    let of_host = |host: &Host| {
        host.workers.iter().zip(&host.journal).any(|(worker, entry)| {
            let idle = worker.as_ref().is_some_and(|worker| worker.running.is_none());
            idle && entry.as_ref().is_some_and(|entry| entry.steps.contains(&Progress::Started))
        })
    };
    state.hosts.iter().any(of_host)
}

fn held_unheard(state: &State) -> bool {
    state.plane.tasks.iter().enumerate().any(|(index, task)| {
        let heard = |host: &Host| host.journal[index].as_ref().is_some_and(|entry| entry.lease == task.lease);
        task.status == Status::Leased && task.acknowledged && !state.hosts.iter().any(heard)
    })
}

type Condition = fn(&LeaseModel, &State) -> bool;

fn law(law: Law, condition: Condition) -> Property<LeaseModel> {
    Property::always(law.name(), condition)
}

fn reached(reached: Reached, condition: Condition) -> Property<LeaseModel> {
    Property::sometimes(reached.name(), condition)
}

pub(crate) fn all() -> Vec<Property<LeaseModel>> {
    vec![
        law(Law::OneResult, |_, state| !state.seen.accepted_twice),
        law(Law::ResultStays, |_, state| !state.seen.result_changed),
        law(Law::OldLeasesAreStale, |_, state| !state.seen.old_lease_believed),
        law(Law::OneEpoch, one_epoch),
        law(Law::OverIsOver, |_, state| !state.seen.revived),
        law(Law::DeadlineHolds, |_, state| !state.seen.started_late),
        law(Law::StartsUnderLease, |_, state| !state.seen.started_without_lease),
        law(Law::HappensOnce, |_, state| !state.seen.repeated),
        reached(Reached::Success, |_, state| any_task(state, Status::Ended(Ending::Succeeded))),
        reached(Reached::SuccessAfterExpiry, |_, state| {
            let again = |task: &Task| task.status == Status::Ended(Ending::Succeeded) && task.lease.number == 2;
            state.plane.tasks.iter().any(again)
        }),
        reached(Reached::Cancellation, |_, state| any_task(state, Status::Ended(Ending::Canceled))),
        reached(Reached::RunsAfterExpiry, |_, state| {
            (0..state.plane.tasks.len())
                .any(|task| state.plane.tasks[task].status == Status::Ready && runs(state, task))
        }),
        reached(Reached::RunsWithoutPlane, |_, state| {
            !state.plane.up && (0..state.plane.tasks.len()).any(|task| runs(state, task))
        }),
        reached(Reached::Interruption, |_, state| interrupted(state)),
        reached(Reached::HeldUnheard, |_, state| held_unheard(state)),
    ]
}
