//! What can still happen from each state: a check that no state is a trap.

use std::{collections::HashMap, hash::RandomState};

use stateright::Model;

use crate::{model::LeaseModel, state::State};

/// What a search of all states found.
#[derive(Clone, Debug)]
pub struct Reach {
    /// States that can be reached.
    pub states: usize,
    /// The goals among them.
    pub goals: usize,
    /// A state from which no goal can be reached.
    pub trap: Option<State>,
}

/// Visits every state and looks whether a goal can be reached from each. The goal need not be reached on
/// every way: a network that loses everything lets nothing happen.
#[must_use]
pub fn reach(model: &LeaseModel, is_goal: impl Fn(&State) -> bool) -> Reach {
    let (states, before) = explore(model);
    let mut open: Vec<usize> = (0..states.len()).filter(|index| is_goal(&states[*index])).collect();
    let goals = open.len();
    let mut led = vec![false; states.len()];
    for index in &open {
        led[*index] = true;
    }
    while let Some(index) = open.pop() {
        for earlier in &before[index] {
            if !std::mem::replace(&mut led[*earlier], true) {
                open.push(*earlier);
            }
        }
    }
    let trap = led.iter().position(|led| !led).map(|index| states[index].clone());
    Reach { states: states.len(), goals, trap }
}

/// All states, and from which others each is reached in one step.
fn explore(model: &LeaseModel) -> (Vec<State>, Vec<Vec<usize>>) {
    let mut states = model.init_states();
    let mut indices: HashMap<State, usize, RandomState> = states.iter().cloned().zip(0..).collect();
    let mut before = vec![Vec::new(); states.len()];
    let mut next = 0;
    while next < states.len() {
        for state in model.next_states(&states[next]) {
            let index = *indices.entry(state).or_insert_with_key(|state| {
                states.push(state.clone());
                before.push(Vec::new());
                states.len() - 1
            });
            before[index].push(next);
        }
        next += 1;
    }
    (states, before)
}
