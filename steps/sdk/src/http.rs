//! HTTP requests to granted addresses, with whole bodies.

#[cfg(target_arch = "wasm32")]
use crate::bindings::fettle::http::http as backend;
pub use crate::bindings::fettle::http::http::{Error, Header, Method, Request, Response};
#[cfg(not(target_arch = "wasm32"))]
use crate::fake::http as backend;
use crate::{CallError, Failure, call::attempt};

/// What a call here answers.
pub type Result<T> = std::result::Result<T, CallError<Error>>;

/// Sends one request and waits for the whole answer, whatever its status.
///
/// # Errors
/// What the host answers.
pub fn send(request: &Request) -> Result<Response> {
    let shown = request.url.split('?').next().unwrap_or_default();
    attempt(backend::send(request), || format!("send a request to `{shown}`"))
}

/// Sends `GET` without a body.
///
/// # Errors
/// What the host answers.
pub fn get(url: &str) -> Result<Response> {
    send(&Request { method: Method::Get, url: url.to_owned(), headers: Vec::new(), body: Vec::new(), timeout_ms: 0 })
}

impl Response {
    /// The first header of this name, in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        header.map(|header| header.value.as_str())
    }
}

impl From<CallError<Error>> for Failure {
    fn from(error: CallError<Error>) -> Self {
        let CallError { attempted, cause } = error;
        match cause {
            Error::AccessDenied => Self::denied(
                "http.access-denied",
                format!(
                    "may not {attempted}: the grant does not cover it, or it is a private address; add it to \
                     `http.requests` of this step, or let an administrator add it to `egress` of the node's policy"
                ),
            ),
            Error::InvalidRequest(rule) => {
                Self::invalid_input("http.invalid-request", format!("cannot {attempted}: {rule}"))
            }
            Error::Unreachable(reason) => {
                Self::transient("http.unreachable", format!("could not {attempted}: {reason}; it may work later"))
            }
            // What the request did, nobody can say; a step that knows that it may be repeated matches on it.
            Error::BrokeOff(reason) => Self::new(
                crate::FailureClass::Unknown,
                "http.broke-off",
                format!("could not {attempted} to its end: {reason}; look whether it had its effect"),
            ),
            Error::TooLarge(limit) => Self::permanent(
                "http.too-large",
                format!("cannot {attempted}: the answer is larger than {limit} bytes"),
            ),
        }
    }
}
