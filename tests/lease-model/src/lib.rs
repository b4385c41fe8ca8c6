//! The lease protocol as a model, and the means to visit every state of it.
//!
//! What each part mirrors, and what is left out, is written in `docs/decisions/lease-model.md`.

mod action;
mod host;
mod model;
mod plane;
mod properties;
mod reach;
mod rules;
mod state;

pub use self::{
    action::Action,
    model::LeaseModel,
    properties::{Law, Reached},
    reach::{Reach, reach},
    rules::{Clocks, Effect, Fault, Rules},
    state::{Ending, Host, Lease, Outcome, Plane, Progress, State, Status, Task, Worker},
};
