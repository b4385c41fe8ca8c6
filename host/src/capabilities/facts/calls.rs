//! The functions of `facts`, as components call them.

use crate::sandbox::{
    AttemptState,
    bindings::fettle::facts::facts::{Error, Filesystem, Host, KernelMessage, MemoryUsage, Process, SystemInformation},
    gate::{CapabilityError, call},
};

impl CapabilityError for Error {
    fn is_denied(&self) -> bool {
        matches!(self, Self::AccessDenied)
    }
}

impl Host for AttemptState {
    async fn system(&mut self) -> wasmtime::Result<Result<SystemInformation, Error>> {
        call!(self, facts.system())
    }

    async fn memory(&mut self) -> wasmtime::Result<Result<MemoryUsage, Error>> {
        call!(self, facts.memory())
    }

    async fn filesystems(&mut self) -> wasmtime::Result<Result<Vec<Filesystem>, Error>> {
        call!(self, facts.filesystems())
    }

    async fn processes(&mut self) -> wasmtime::Result<Result<Vec<Process>, Error>> {
        call!(self, facts.processes())
    }

    async fn kernel_log(&mut self) -> wasmtime::Result<Result<Vec<KernelMessage>, Error>> {
        call!(self, facts.kernel_log())
    }
}
