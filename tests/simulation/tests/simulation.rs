//! A thousand seeds, and the same seed twice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;

use fettle_simulation::{Broken, all, one, renewals};

/// Seeds that are tried when nobody says how many.
const SEEDS: u64 = 1_000;

/// Seeds among which one must notice what is broken.
const NOTICED_WITHIN: u64 = 200;

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_simulation"))
}

fn seeds() -> u64 {
    let said = std::env::var("FETTLE_SIMULATION_SEEDS").ok();
    said.map_or(SEEDS, |text| text.parse().expect("FETTLE_SIMULATION_SEEDS is a number"))
}

#[test]
fn every_law_holds_for_every_seed() {
    let said = all(program(), 0..seeds(), None, |_| false).unwrap();
    let failed: Vec<_> = said.iter().filter(|said| !said.held).collect();
    for said in &failed {
        println!("{}repeat it with: cargo run -p fettle-simulation -- seed {} --trace", said.text, said.seed);
    }
    assert!(failed.is_empty(), "{} of {} seeds failed: {:?}", failed.len(), said.len(), failed[0].seed);
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [0, 1, 2, 3, 5, 8, 13, 21] {
        let (first, second) = (one(program(), seed, None).unwrap(), one(program(), seed, None).unwrap());
        assert_eq!(first.text, second.text, "seed {seed}");
        let other = one(program(), seed + 1_000, None).unwrap();
        assert_ne!(first.text, other.text.replace(&other.seed.to_string(), &seed.to_string()), "chance is no chance");
    }
}

/// Hosts that work renew their certificates at two thirds of nine seconds, with a new key and a new connection each time.
#[test]
fn certificates_are_renewed_a_thousand_times_under_load_and_no_report_fails() {
    let said = renewals(program(), 1, 1_000).unwrap();
    println!("{}", said.text);
    assert!(said.held, "{}", said.text);
    let count = |what: &str| -> u64 {
        let before = said.text.split_once(what).unwrap().0;
        before.rsplit([' ', ';']).next().unwrap().parse().unwrap()
    };
    assert!(count(" certificates") >= 1_003 && count(" operations") >= 300, "{}", said.text);
    assert_eq!(count(" leased again"), 0, "{}", said.text);
}

fn is_noticed(broken: Broken, law: &str) {
    let said = all(program(), 0..NOTICED_WITHIN, Some(broken), |said| !said.held && said.text.contains(law)).unwrap();
    let noticed = said.iter().find(|said| !said.held && said.text.contains(law));
    assert!(noticed.is_some(), "nothing was noticed of {broken:?} in {} seeds", said.len());
}

#[test]
fn a_store_that_compares_no_epochs_is_noticed() {
    is_noticed(Broken::EpochUnchecked, "was accepted under epoch");
}

#[test]
fn leases_that_never_end_are_noticed() {
    is_noticed(Broken::LeasesNeverEnd, "not over in time");
}

#[test]
fn reports_that_are_answered_before_they_are_stored_are_noticed() {
    is_noticed(Broken::ReportsNotDurable, "not over in time");
}

#[test]
fn a_journal_that_forgets_is_noticed() {
    is_noticed(Broken::JournalForgets, "which may not be repeated, happened 2 times");
}
