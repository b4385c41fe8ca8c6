//! The functions of `transfer`, as components call them.

use crate::sandbox::{
    AttemptState,
    bindings::fettle::transfer::transfer::{Blob, Error, Host, Manifest, Transferred},
    gate::{CapabilityError, call},
};

impl CapabilityError for Error {
    fn is_denied(&self) -> bool {
        matches!(self, Self::AccessDenied)
    }
}

impl Host for AttemptState {
    async fn authorize(&mut self, credential: String) -> wasmtime::Result<Result<(), Error>> {
        call!(self, transfer.authorize(credential))
    }

    async fn pull_manifest(&mut self, reference: String) -> wasmtime::Result<Result<Manifest, Error>> {
        call!(self, transfer.pull_manifest(reference))
    }

    async fn pull_blobs(
        &mut self,
        repository: String,
        blobs: Vec<Blob>,
    ) -> wasmtime::Result<Result<Vec<Transferred>, Error>> {
        call!(self, transfer.pull_blobs(repository, blobs))
    }
}
