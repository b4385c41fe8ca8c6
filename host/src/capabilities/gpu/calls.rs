//! The functions of `gpu`, as components call them.

use crate::sandbox::{
    AttemptState,
    bindings::fettle::gpu::gpu::{Error, Host, Snapshot},
    gate::{CapabilityError, call},
};

impl CapabilityError for Error {
    fn is_denied(&self) -> bool {
        matches!(self, Self::AccessDenied)
    }
}

impl Host for AttemptState {
    async fn read(&mut self) -> wasmtime::Result<Result<Snapshot, Error>> {
        call!(self, gpu.read())
    }
}
