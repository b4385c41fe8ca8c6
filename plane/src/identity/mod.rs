//! Who somebody is, and what that lets them do.

mod caller;
pub(crate) mod secret;

pub(crate) use caller::Caller;
