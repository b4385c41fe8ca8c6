//! The plane's REST interface, as far as this program uses it.

mod client;
mod error;
mod follow;
mod policy;
mod problem;
mod view;

pub use self::{
    client::PlaneClient,
    error::PlaneError,
    follow::{Followed, Follower, Patience},
    policy::{BrokenRule, Decision, OperationPolicy, OverlayTaken, PolicyScope, RegoTaken},
    problem::Problem,
    view::{
        Amendment, Definition, DeniedCall, Event, EventPayload, LogLine, NewDefinition, NewOperation, Node, NodeTask,
        Operation, PlanAccess, PlannedAccess, PlannedNode, PlannedOperation, Retry, Sources, Step, TargetSelector,
        Wait,
    },
};
