//! The functions of `policy`, as components call them.

use crate::sandbox::{
    AttemptState,
    bindings::fettle::policy::policy::{ActivePolicies, Error, Host},
    gate::{CapabilityError, call},
};

impl CapabilityError for Error {
    fn is_denied(&self) -> bool {
        matches!(self, Self::AccessDenied)
    }
}

impl Host for AttemptState {
    async fn active(&mut self) -> wasmtime::Result<Result<Option<ActivePolicies>, Error>> {
        call!(self, policy.active())
    }

    async fn activate(&mut self, reference: String) -> wasmtime::Result<Result<ActivePolicies, Error>> {
        call!(self, policy.activate(reference))
    }
}
