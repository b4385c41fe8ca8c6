//! `http` on the fake node.

use super::node::with;
use crate::http::{Error, Method, Request, Response};

/// An answer with this status and body, and no headers.
#[must_use]
pub fn answered(status: u16, body: impl Into<Vec<u8>>) -> Response {
    Response { status, headers: Vec::new(), body: body.into() }
}

const fn name(method: Method) -> &'static str {
    match method {
        Method::Get => "GET",
        Method::Head => "HEAD",
        Method::Post => "POST",
        Method::Put => "PUT",
        Method::Patch => "PATCH",
        Method::Delete => "DELETE",
    }
}

pub(crate) fn send(request: &Request) -> Result<Response, Error> {
    with(|state| {
        let method = name(request.method);
        state.calls.push(format!("http.send {method} {}", request.url));
        let key = (method.to_owned(), request.url.clone());
        state.requests.get(&key).cloned().unwrap_or(Err(Error::AccessDenied))
    })
}
