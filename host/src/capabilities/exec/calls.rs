//! The functions of `exec`, as components call them.

use crate::sandbox::{
    AttemptState,
    bindings::fettle::exec::exec::{Argument, Error, Host, Outcome},
    gate::{CapabilityError, call},
};

impl CapabilityError for Error {
    fn is_denied(&self) -> bool {
        matches!(self, Self::AccessDenied)
    }
}

impl Host for AttemptState {
    async fn run(&mut self, profile: String, arguments: Vec<Argument>) -> wasmtime::Result<Result<Outcome, Error>> {
        call!(self, exec.run(profile, arguments))
    }
}
