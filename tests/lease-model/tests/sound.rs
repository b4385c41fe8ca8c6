//! The protocol as it should be: every law holds in every state, and enough happens in them.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use fettle_lease_model::{Clocks, Effect, Ending, Law, LeaseModel, Reached, Rules, State, Status, Task, reach};
use stateright::{Checker as _, Model as _};

/// Visits every state. The numbers are what was found when the model was written: fewer states would mean
/// that something cannot happen any more, many more that the model has outgrown its test.
fn holds(rules: Rules, states: usize, reached: &[Reached]) {
    let limit = states * 2;
    let checker = LeaseModel::new(rules).checker().target_state_count(limit * 20).spawn_bfs().join();
    let found = checker.unique_state_count();
    for law in Law::ALL {
        checker.assert_no_discovery(law.name());
    }
    for one in reached {
        checker.assert_any_discovery(one.name());
    }
    assert!(checker.is_done(), "not every state was visited");
    assert!((states..=limit).contains(&found), "{found} states were visited; they were {states}");
}

fn all_but(left_out: &[Reached]) -> Vec<Reached> {
    Reached::ALL.into_iter().filter(|one| !left_out.contains(one)).collect()
}

#[test]
fn two_steps_of_one_task_keep_every_law() {
    let rules = Rules { cancels: false, ..Rules::one_task(&[Effect::Repeatable, Effect::Consume]) };
    holds(rules, 203_536, &all_but(&[Reached::Cancellation]));
}

#[test]
fn a_step_that_nobody_can_tell_of_happens_once_whatever_crashes() {
    let rules = Rules { crashes: 2, ..Rules::one_task(&[Effect::Consume]) };
    holds(rules, 368_586, &Reached::ALL);
}

#[test]
fn laws_do_not_depend_on_clocks() {
    let rules = Rules { clocks: Clocks::Free, ..Rules::one_task(&[Effect::ConsumeProbed]) };
    holds(rules, 372_221, &Reached::ALL);
}

#[test]
fn two_machines_that_speak_for_one_node_get_one_result_accepted() {
    let steps = Rules::one_task(&[Effect::Repeatable]);
    let rules = Rules { hosts: 2, crashes: 0, cancels: false, clocks: Clocks::Free, ..steps };
    holds(rules, 825_891, &all_but(&[Reached::Cancellation, Reached::RunsWithoutPlane]));
}

#[test]
fn a_task_that_is_leased_three_times_keeps_every_law() {
    let rules = Rules { leases: 3, crashes: 0, cancels: false, ..Rules::one_task(&[Effect::Repeatable]) };
    holds(rules, 56_217, &[Reached::SuccessAfterExpiry, Reached::RunsAfterExpiry, Reached::HeldUnheard]);
}

#[test]
fn two_tasks_take_turns_at_one_slot() {
    let steps = Rules::one_task(&[Effect::Repeatable]);
    let rules = Rules { tasks: vec![vec![Effect::Repeatable]; 2], slots: 1, crashes: 0, cancels: false, ..steps };
    holds(rules, 44_900, &[Reached::Success, Reached::SuccessAfterExpiry, Reached::RunsAfterExpiry]);
}

/// A task whose last lease in this model was given and lost is where the model ends, not the protocol.
#[test]
fn every_task_can_still_end_in_every_state() {
    for (slots, crashes, effect) in [(1, 1, Effect::Repeatable), (2, 0, Effect::Consume)] {
        let rules = Rules { slots, crashes, ..Rules::one_task(&[effect]) };
        let leases = rules.leases;
        let can_end = reach(&LeaseModel::new(rules.clone()), |state| {
            let spent = |task: &Task| task.lease.number == leases && task.status == Status::Ready;
            state.plane.tasks.iter().all(|task| task.is_over() || spent(task))
        });
        assert!(can_end.trap.is_none(), "with {slots} slots: {:?}", can_end.trap);
        let checker = LeaseModel::new(rules).checker().spawn_bfs().join();
        assert_eq!(can_end.states, checker.unique_state_count(), "two searches disagree");
    }
}

/// The search for traps finds one: what was canceled never succeeds.
#[test]
fn a_trap_is_told() {
    let succeeded =
        |state: &State| state.plane.tasks.iter().all(|task| task.status == Status::Ended(Ending::Succeeded));
    let found = reach(&LeaseModel::new(Rules { crashes: 0, ..Rules::one_task(&[Effect::Repeatable]) }), succeeded);
    assert!(found.goals > 0 && found.trap.is_some());
}
