//! The functions of `http`, as components call them.

use crate::sandbox::{
    AttemptState,
    bindings::fettle::http::http::{Error, Host, Request, Response},
    gate::{CapabilityError, call},
};

impl CapabilityError for Error {
    fn is_denied(&self) -> bool {
        matches!(self, Self::AccessDenied)
    }
}

impl Host for AttemptState {
    async fn send(&mut self, request: Request) -> wasmtime::Result<Result<Response, Error>> {
        call!(self, http.send(request))
    }
}
