//! The plane's REST interface, as far as this program uses it.

mod client;
mod error;
mod follow;
mod node_set;
mod policy;
mod problem;
mod view;
mod webhook;

pub use self::{
    client::PlaneClient,
    error::PlaneError,
    follow::{Followed, Follower, Patience},
    node_set::{NodeSet, NodeSetKind},
    policy::{BrokenRule, Decision, OperationPolicy, OverlayTaken, PolicyScope, RegoTaken},
    problem::Problem,
    view::{
        Amendment, Definition, DeniedCall, Event, EventPayload, ForceProbe, LogLine, NewDefinition, NewOperation, Node,
        NodeTask, Operation, PlanAccess, PlannedAccess, PlannedNode, PlannedOperation, Recover, Retry, Sources, Step,
        TargetSelector, Wait, Warning,
    },
    webhook::{DeadLetter, Replayed, Webhook, WebhookScope},
};
