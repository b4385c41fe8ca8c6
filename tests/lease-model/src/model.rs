//! What can happen in each state, and what comes of it.

use stateright::{Model, Property};

use crate::{
    action::Action,
    properties,
    rules::{Clocks, Effect, Fault, Rules},
    state::{Progress, State},
};

/// The protocol under certain rules.
#[derive(Clone, Debug)]
pub struct LeaseModel {
    /// The rules.
    pub rules: Rules,
}

impl LeaseModel {
    /// A model of these rules.
    #[must_use]
    pub const fn new(rules: Rules) -> Self {
        Self { rules }
    }

    fn plane_actions(&self, state: &State, actions: &mut Vec<Action>) {
        let rules = &self.rules;
        if !state.plane.up {
            return actions.push(Action::PlaneStarts);
        }
        for (task, row) in state.plane.tasks.iter().enumerate() {
            if state.can_lease(task, rules) {
                actions.push(Action::Lease { task });
            }
            if row.can_expire(rules) {
                actions.push(Action::Expire { task });
            }
            if rules.cancels && !row.is_over() {
                actions.push(Action::Cancel { task });
            }
        }
        actions.extend(state.network.iter().copied().map(Action::Arrives));
        if state.crashes > 0 {
            actions.push(Action::PlaneCrashes);
        }
    }

    fn stream_actions(state: &State, actions: &mut Vec<Action>) {
        let Some(stream) = &state.plane.stream else { return };
        actions.push(Action::StreamBreaks);
        if !stream.leases.is_empty() {
            actions.push(Action::LeaseArrives);
        }
        let canceled = state.plane.tasks.iter().enumerate().filter(|(_, row)| row.cancel_requested && !row.is_over());
        actions.extend(canceled.map(|(task, _)| Action::CancelArrives { task }));
    }

    fn host_actions(&self, state: &State, host: usize, actions: &mut Vec<Action>) {
        let machine = &state.hosts[host];
        if !machine.up {
            return actions.push(Action::HostStarts { host });
        }
        if state.plane.up && state.plane.stream.as_ref().is_none_or(|stream| stream.host != host) {
            actions.push(Action::Connects { host });
        }
        if state.crashes > 0 {
            actions.push(Action::HostCrashes { host });
        }
        for task in 0..self.rules.tasks.len() {
            self.call_actions(state, host, task, actions);
            self.step_actions(state, host, task, actions);
        }
    }

    fn call_actions(&self, state: &State, host: usize, task: usize, actions: &mut Vec<Action>) {
        let Some((worker, entry)) = state.work(host, task) else { return };
        match worker.call {
            None => actions.push(Action::Extends { host, task }),
            Some(call) => {
                actions.push(Action::CallFails { host, task });
                if call.answer.is_some() {
                    actions.push(Action::AnswerArrives { host, task });
                }
            }
        }
        let over = entry.steps.iter().enumerate().filter(|(_, step)| matches!(step, Progress::Over(_)));
        actions.extend(over.map(|(step, _)| Action::Reports { host, task, step }));
        if entry.ending.is_some() && state.all_stored(host, task) {
            actions.push(Action::TellsEnd { host, task });
        }
        if entry.ending.is_some() && state.plane.tasks[task].is_over() {
            actions.push(Action::HearsEnd { host, task });
        }
    }

    fn step_actions(&self, state: &State, host: usize, task: usize, actions: &mut Vec<Action>) {
        let Some((worker, _)) = state.work(host, task) else { return };
        if let Some((step, interrupted)) = state.startable(host, task, &self.rules) {
            actions.push(Action::Starts { host, task, step, unknown: false });
            if interrupted && self.rules.tasks[task][step] == Effect::ConsumeProbed {
                actions.push(Action::Starts { host, task, step, unknown: true });
            }
        }
        if let Some((_, happened)) = worker.running {
            let next = if happened { Action::Finishes { host, task } } else { Action::Happens { host, task } };
            actions.push(next);
            if self.rules.has(Fault::JournaledLate) {
                actions.push(Action::JournalsStart { host, task });
            }
        }
        if worker.running.is_none() || worker.canceled {
            actions.extend(state.ending(host, task).map(|_| Action::Ends { host, task }));
        }
    }

    fn time_actions(&self, actions: &mut Vec<Action>) {
        match self.rules.clocks {
            Clocks::Equal => actions.push(Action::Tick),
            Clocks::Free => {
                actions.push(Action::PlaneTicks);
                actions.extend((0..self.rules.hosts).map(|host| Action::HostTicks { host }));
            }
        }
    }

    fn apply(&self, state: &mut State, action: Action) {
        let rules = &self.rules;
        match action {
            Action::Lease { task } => state.lease(task, rules),
            Action::Expire { task } => state.expire(task),
            Action::Cancel { task } => state.cancel(task),
            Action::CancelArrives { task } => {
                if let Some(host) = state.plane.stream.as_ref().map(|stream| stream.host) {
                    state.cancel_arrives(host, task);
                }
            }
            Action::PlaneCrashes => state.plane_crashes(),
            Action::PlaneStarts => state.plane_starts(),
            Action::Arrives(message) => state.arrives(message, rules),
            Action::StreamBreaks => state.plane.stream = None,
            Action::Connects { host } => state.connects(host, rules),
            Action::LeaseArrives => state.lease_arrives(),
            Action::Extends { host, task } => state.extends(host, task),
            Action::AnswerArrives { host, task } => state.answer_arrives(host, task, rules),
            Action::CallFails { host, task } => state.call_fails(host, task),
            Action::Starts { host, task, step, unknown } => state.starts(host, task, step, unknown, rules),
            Action::JournalsStart { host, task } => state.journals_start(host, task),
            Action::Happens { host, task } => state.happens(host, task),
            Action::Finishes { host, task } => state.finishes(host, task),
            Action::Reports { host, task, step } => state.reports(host, task, step),
            Action::Ends { host, task } => state.ends(host, task),
            Action::TellsEnd { host, task } => state.tells_end(host, task),
            Action::HearsEnd { host, task } => state.hears_end(host, task, rules),
            Action::HostCrashes { host } => state.host_crashes(host),
            Action::HostStarts { host } => state.host_starts(host),
            Action::Tick => {
                state.plane_ticks();
                (0..rules.hosts).for_each(|host| state.host_ticks(host, rules));
            }
            Action::PlaneTicks => state.plane_ticks(),
            Action::HostTicks { host } => state.host_ticks(host, rules),
        }
    }
}

impl Model for LeaseModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::initial(&self.rules)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.plane_actions(state, actions);
        Self::stream_actions(state, actions);
        for host in 0..state.hosts.len() {
            self.host_actions(state, host, actions);
        }
        self.time_actions(actions);
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        self.apply(&mut state, action);
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}
