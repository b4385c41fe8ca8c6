//! The functions of `credentials`, as components call them.

use crate::sandbox::{
    AttemptState,
    bindings::fettle::credentials::credentials::{Error, Host},
    gate::{CapabilityError, call},
};

impl CapabilityError for Error {
    fn is_denied(&self) -> bool {
        matches!(self, Self::AccessDenied)
    }
}

impl Host for AttemptState {
    async fn mint(&mut self, credential_type: String, scope: String) -> wasmtime::Result<Result<String, Error>> {
        call!(self, credentials.mint(credential_type, scope))
    }
}
