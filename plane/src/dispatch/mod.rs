//! Tasks to nodes: who waits for what, and what happens when nobody answers.

pub(crate) mod expiry;
mod wakeups;

pub(crate) use wakeups::{NodeWake, Wakeups};
