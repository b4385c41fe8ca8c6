//! The plane: it decides, schedules and records. It never runs a step, and a node never runs what the
//! plane says unless it is signed.
//!
//! [`Plane::start`] runs one in this process; [`command::run`] is the program `fettle-plane`.

pub mod administration;
mod api;
pub mod artifact;
mod clock;
pub mod command;
mod config;
pub mod database;
mod deprecation;
mod dispatch;
mod explanation;
mod identity;
mod node;
mod observation;
mod plane;
mod policy;
mod reads;
mod recovery;
#[cfg(test)]
mod reference;
mod registration;
mod retry;
#[cfg(feature = "simulation")]
pub mod simulation;
mod state;
mod submission;
mod target;
mod upkeep;
mod webhook;

pub use config::{Lockout, PlaneConfig, RateLimit};
pub use identity::authorities::IdentityError;
pub use identity::openid::OpenIdError;
pub use observation::PlaneMetrics;
pub use plane::{Plane, RunningPlane, StartError};
pub use policy::rego::RegoError;
pub use upkeep::{Retention, RetentionError};
pub use webhook::WebhookConfig;
