//! The functions of `files`, as components call them.

use crate::sandbox::{
    AttemptState,
    bindings::fettle::files::files::{Attributes, Error, Host, Metadata},
    gate::{CapabilityError, call},
};

impl CapabilityError for Error {
    fn is_denied(&self) -> bool {
        matches!(self, Self::AccessDenied)
    }
}

impl Host for AttemptState {
    async fn stat(&mut self, path: String) -> wasmtime::Result<Result<Option<Metadata>, Error>> {
        call!(self, files.stat(path))
    }

    async fn read(&mut self, path: String, limit: u64) -> wasmtime::Result<Result<Vec<u8>, Error>> {
        call!(self, files.read(path, limit))
    }

    async fn digest(&mut self, path: String) -> wasmtime::Result<Result<Option<String>, Error>> {
        call!(self, files.digest(path))
    }

    async fn write(
        &mut self,
        path: String,
        content: Vec<u8>,
        attributes: Attributes,
    ) -> wasmtime::Result<Result<bool, Error>> {
        call!(self, files.write(path, content, attributes))
    }

    async fn remove(&mut self, path: String) -> wasmtime::Result<Result<bool, Error>> {
        call!(self, files.remove(path))
    }
}
