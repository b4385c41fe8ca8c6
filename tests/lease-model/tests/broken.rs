//! Each protection taken out: the checker finds what goes wrong. And the host of today, which lacks one.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use fettle_lease_model::{Effect, Fault, Law, LeaseModel, Rules};
use stateright::{Checker as _, HasDiscoveries, Model as _};

/// Finds the breach of a law, and replays it: in the state at its end the law does not hold.
fn breaks(rules: Rules, fault: Fault, law: Law) {
    let broken = LeaseModel::new(rules.with(fault));
    let finish = HasDiscoveries::AllOf([law.name()].into());
    let checker = broken.clone().checker().finish_when(finish).target_state_count(2_000_000).spawn_bfs().join();
    let path = checker.assert_any_discovery(law.name());
    let holds = broken.property(law.name()).condition;
    assert!(!holds(&broken, path.last_state()), "{path}");
}

#[test]
fn without_the_epoch_the_store_believes_an_old_lease() {
    breaks(Rules::one_task(&[Effect::Repeatable]), Fault::EpochUnchecked, Law::OldLeasesAreStale);
    breaks(Rules::one_task(&[Effect::Repeatable]), Fault::EpochUnchecked, Law::OneEpoch);
}

#[test]
fn an_epoch_that_does_not_grow_fences_nothing() {
    breaks(Rules::one_task(&[Effect::Repeatable]), Fault::EpochReused, Law::OldLeasesAreStale);
}

#[test]
fn without_the_state_of_the_step_a_repeated_report_is_accepted_again() {
    breaks(Rules::one_task(&[Effect::Repeatable]), Fault::ResultReplaced, Law::OneResult);
}

/// Either protection alone keeps a result; without both, a machine that was replaced overwrites what was accepted.
#[test]
fn without_epoch_and_state_a_second_machine_changes_a_result() {
    let steps = Rules::one_task(&[Effect::Repeatable]);
    let rules = Rules { hosts: 2, crashes: 0, cancels: false, ..steps };
    breaks(rules.with(Fault::EpochUnchecked), Fault::ResultReplaced, Law::ResultStays);
}

#[test]
fn a_timer_that_looks_at_no_state_revives_what_is_over() {
    breaks(Rules::one_task(&[Effect::Repeatable]), Fault::EndedExpires, Law::OverIsOver);
}

#[test]
fn a_host_that_ignores_its_deadline_starts_steps_under_a_lease_that_ended() {
    breaks(Rules::one_task(&[Effect::Repeatable]), Fault::DeadlineIgnored, Law::DeadlineHolds);
    breaks(Rules::one_task(&[Effect::Repeatable]), Fault::DeadlineIgnored, Law::StartsUnderLease);
}

#[test]
fn a_deadline_that_is_counted_from_the_answer_is_too_late() {
    breaks(Rules::one_task(&[Effect::Repeatable]), Fault::DeadlineFromAnswer, Law::StartsUnderLease);
}

#[test]
fn a_start_that_is_journaled_after_it_lets_a_step_happen_twice() {
    breaks(Rules::one_task(&[Effect::Consume]), Fault::JournaledLate, Law::HappensOnce);
}

#[test]
fn an_interrupted_step_that_is_repeated_without_a_question_happens_twice() {
    breaks(Rules::one_task(&[Effect::Consume]), Fault::RepeatedUnasked, Law::HappensOnce);
    breaks(Rules::one_task(&[Effect::ConsumeProbed]), Fault::RepeatedUnasked, Law::HappensOnce);
}

/// Which laws do not hold, of all states.
fn broken_by(fault: Fault) -> Vec<Law> {
    let rules = Rules { crashes: 1, ..Rules::one_task(&[Effect::Consume]) };
    let checker = LeaseModel::new(rules.with(fault)).checker().target_state_count(20_000_000).spawn_bfs().join();
    let found = checker.discoveries();
    assert!(checker.is_done(), "not every state was visited");
    Law::ALL.into_iter().filter(|law| found.contains_key(law.name())).collect()
}

/// One that goes on while the plane is away, whatever time it is, and starts before its acknowledgement is answered.
/// A lease that reaches it when its task is over, and forgotten, is therefore executed once more. What the plane
/// accepts does not suffer: that rests on epochs alone.
#[test]
fn a_host_without_either_rule_breaks_the_laws_of_its_deadline_and_may_repeat_what_it_has_forgotten() {
    let broken = broken_by(Fault::DeadlineIgnored);
    assert_eq!(broken, [Law::DeadlineHolds, Law::StartsUnderLease, Law::HappensOnce]);
}

/// It waits for the first answer, and looks at no clock after that.
#[test]
fn the_host_of_today_repeats_nothing_and_may_start_a_step_after_its_lease() {
    assert_eq!(broken_by(Fault::DeadlineNeverPasses), [Law::StartsUnderLease]);
}
