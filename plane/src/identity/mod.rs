//! Who somebody is, and what that lets them do.

mod authorise;
pub(crate) mod authorities;
mod caller;
pub(crate) mod lockouts;
pub(crate) mod network;
pub(crate) mod openid;
mod projects;
mod rates;
pub(crate) mod role;
pub(crate) mod secret;
pub(crate) mod table;
pub(crate) mod task_key;
mod uses;

pub(crate) use authorise::authorise;
pub(crate) use caller::{Caller, InProject, InTenant, OfNode};
pub(crate) use lockouts::Lockouts;
pub(crate) use projects::Projects;
pub(crate) use rates::Rates;
pub(crate) use uses::TokenUses;
