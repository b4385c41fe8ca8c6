//! One plane, three hosts and random faults, on a simulated clock, from a seed.
//!
//! What is real and what is not, and how a seed is repeated, is written in `docs/decisions/simulation.md`.
#![expect(clippy::expect_used, reason = "a simulation ends where what it stands on is broken")]

mod broken;
mod chance;
mod faults;
mod fleet;
mod laws;
mod ledger;
mod library;
mod line;
mod machine;
mod net;
mod person;
mod run;
mod script;
mod seeds;
mod store;
mod trace;

pub use self::{
    broken::Broken,
    run::{Course, Outcome, simulate},
    seeds::{Said, all, one, renewals},
};
