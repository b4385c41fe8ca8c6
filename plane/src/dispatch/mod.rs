//! Tasks to nodes: who waits for what, and what happens when nobody answers.

pub(crate) mod expiry;
mod holdings;
mod screen;
mod wakeups;

pub(crate) use holdings::Holdings;
pub(crate) use screen::Screen;
pub(crate) use wakeups::{NodeWake, Wakeups};
