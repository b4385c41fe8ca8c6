//! Errors as RFC 9457 problem details, with a stable code.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use fettle_credentials::SealedError;
use fettle_model::violation::{Violation, Violations};
use fettle_store::{StoreError, policy};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{clock::NoRandomness, registration::RegistrationError, submission::SubmissionError};

/// What is answered instead of a result.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    violations: Vec<Violation>,
    /// Seconds until it is worth trying again.
    retry_after: Option<u64>,
}

/// An RFC 9457 problem document.
#[derive(Serialize, ToSchema)]
pub(crate) struct ProblemDocument {
    /// `urn:fettle:problem:<code>`
    #[serde(rename = "type")]
    kind: String,
    /// The status in words.
    title: String,
    /// The HTTP status.
    status: u16,
    /// Stable and dotted; programs should look at this.
    code: String,
    /// What is wrong, which rule it breaks, and the fix.
    detail: String,
    /// Everything that is wrong with the input, each at its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    violations: Vec<ViolationDocument>,
}

/// One broken rule at one place.
#[derive(Serialize, ToSchema)]
pub(crate) struct ViolationDocument {
    /// JSON pointer into the request body, or the name of a parameter.
    pointer: String,
    /// What is wrong, and the fix.
    message: String,
}

impl Problem {
    const fn new(status: StatusCode, code: &'static str, detail: String) -> Self {
        Self { status, code, detail, violations: Vec::new(), retry_after: None }
    }

    /// No token, or none that is valid. Says no more: which it is, is nobody's business.
    pub(crate) fn unauthenticated() -> Self {
        let detail = "send `Authorization: Bearer <token>` with a token that is neither expired nor revoked; \
                      `fettle-plane token create` makes one";
        Self::new(StatusCode::UNAUTHORIZED, "access.unauthenticated", detail.to_owned())
    }

    /// A token of an OpenID provider that says nothing; the holder may know why.
    pub(crate) const fn unvouched(detail: String) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "access.unauthenticated", detail)
    }

    /// Somebody whom an OpenID provider vouches for, and whom nobody gave a role.
    pub(crate) const fn without_role(detail: String) -> Self {
        Self::new(StatusCode::FORBIDDEN, "access.no_role", detail)
    }

    /// Whether a token counts cannot be said now.
    pub(crate) const fn issuer_unavailable(detail: String) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "access.issuer_unavailable", detail)
    }

    /// The role does not allow it.
    pub(crate) const fn forbidden(detail: String) -> Self {
        Self::new(StatusCode::FORBIDDEN, "access.denied", detail)
    }

    /// Policy denies it.
    pub(crate) fn denied(violations: Vec<Violation>) -> Self {
        let detail = match violations.as_slice() {
            [one] => format!("policy denies this: {one}"),
            many => format!("policy denies this by {} rules", many.len()),
        };
        Self { violations, ..Self::new(StatusCode::FORBIDDEN, "policy.denied", detail) }
    }

    /// A change must say of which state it is one.
    pub(crate) fn unconditional() -> Self {
        let detail = "send `If-Match` with the ETag that was read, or `If-None-Match: *` for a new document";
        Self::new(StatusCode::PRECONDITION_REQUIRED, "policy.unconditional", detail.to_owned())
    }

    /// The token makes more requests than it may.
    pub(crate) fn too_many(wait: std::time::Duration) -> Self {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        let detail = format!("this token makes more requests than it may; try again in {seconds} seconds");
        let retry_after = Some(seconds.max(1));
        Self { retry_after, ..Self::new(StatusCode::TOO_MANY_REQUESTS, "request.too_many", detail) }
    }

    /// What came before it was too much.
    pub(crate) fn locked_out(wait: std::time::Duration) -> Self {
        let detail = "too many requests with tokens that do not count, or too many that were refused, came from here; the \
                      next one is looked at in";
        let seconds = (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1);
        let detail = format!("{detail} {seconds} seconds");
        Self { retry_after: Some(seconds), ..Self::new(StatusCode::TOO_MANY_REQUESTS, "access.locked_out", detail) }
    }

    /// It is not there, or the caller may not know of it.
    pub(crate) const fn not_found(code: &'static str, detail: String) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, detail)
    }

    /// The endpoint is there and does not take this method.
    pub(crate) const fn wrong_method(detail: String) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "endpoint.wrong_method", detail)
    }

    /// The body or the query is not what it should be.
    pub(crate) fn invalid(violations: Vec<Violation>) -> Self {
        let detail = match violations.as_slice() {
            [one] => one.to_string(),
            many => format!("the request breaks {} rules", many.len()),
        };
        Self { violations, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "request.invalid", detail) }
    }

    /// The body is no JSON.
    pub(crate) const fn malformed(detail: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "request.malformed", detail)
    }

    /// The body is not said to be JSON.
    pub(crate) fn media_type(said: &str) -> Self {
        let said = if said.is_empty() { "nothing".to_owned() } else { format!("`{said}`") };
        let detail = format!("the request says {said} of its body; send `Content-Type: application/json`");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "request.media_type", detail)
    }

    /// The body is too large.
    pub(crate) fn too_large(limit: usize) -> Self {
        let detail = format!("the request body is larger than {limit} bytes; pass bulk data as an artifact reference");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "request.too_large", detail)
    }

    /// It took too long.
    pub(crate) fn timeout(seconds: u64) -> Self {
        let detail = format!("the request took longer than {seconds} seconds; try again with an idempotency key");
        Self::new(StatusCode::GATEWAY_TIMEOUT, "request.timeout", detail)
    }

    /// The database does not answer.
    pub(crate) fn unavailable(detail: String) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "store.unavailable", detail)
    }

    /// An endpoint that nobody said who may call.
    pub(crate) fn unlisted(method: &axum::http::Method, path: &str) -> Self {
        tracing::error!(%method, path, "an endpoint has no row in the table of plane/src/identity/table.rs");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "nobody may call this endpoint".to_owned())
    }

    /// An endpoint that wants something of the path that its row in the table does not name.
    pub(crate) fn unfit(path: &str) -> Self {
        tracing::error!(path, "an endpoint and its row in the table of plane/src/identity/table.rs do not fit");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "nobody may call this endpoint".to_owned())
    }

    /// Something is wrong inside. The chain goes to the log, not to the caller.
    fn internal(error: &dyn std::error::Error) -> Self {
        log_chain(error);
        let detail = "the plane could not do this; its log says why, under the correlation id of this answer";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail.to_owned())
    }
}

fn log_chain(error: &dyn std::error::Error) {
    let mut causes = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    tracing::error!(%error, ?causes, "a request failed");
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Unavailable { .. } => {
                log_chain(&error);
                Self::unavailable(error.to_string())
            }
            StoreError::Corrupt { .. } => Self::internal(&error),
            StoreError::NotFound { .. } => Self::not_found("resource.unknown", error.to_string()),
            StoreError::Conflict { code: policy::CHANGED, message } => {
                Self::new(StatusCode::PRECONDITION_FAILED, policy::CHANGED, message.clone())
            }
            StoreError::Conflict { code, message } => Self::new(StatusCode::CONFLICT, code, message.clone()),
        }
    }
}

impl From<NoRandomness> for Problem {
    fn from(error: NoRandomness) -> Self {
        Self::internal(&error)
    }
}

impl From<SealedError> for Problem {
    fn from(error: SealedError) -> Self {
        Self::internal(&error)
    }
}

impl From<RegistrationError> for Problem {
    fn from(error: RegistrationError) -> Self {
        match error {
            RegistrationError::Invalid(Violations(violations)) => Self::invalid(violations),
            RegistrationError::Unavailable(error) => {
                Self::new(StatusCode::BAD_GATEWAY, "artifact.unavailable", error.message)
            }
            RegistrationError::Store(error) => error.into(),
            RegistrationError::Random(error) => error.into(),
        }
    }
}

impl From<SubmissionError> for Problem {
    fn from(error: SubmissionError) -> Self {
        match error {
            SubmissionError::Invalid(Violations(violations)) => Self::invalid(violations),
            SubmissionError::Store(error) => error.into(),
            SubmissionError::Random(error) => error.into(),
            SubmissionError::Denied(Violations(violations)) => Self::denied(violations),
            SubmissionError::Plan(_) | SubmissionError::NotCanonical(_) => Self::internal(&error),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let document = ProblemDocument {
            kind: format!("urn:fettle:problem:{}", self.code),
            title: self.status.canonical_reason().unwrap_or("error").to_owned(),
            status: self.status.as_u16(),
            code: self.code.to_owned(),
            detail: self.detail,
            violations: self
                .violations
                .into_iter()
                .map(|violation| ViolationDocument { pointer: violation.pointer, message: violation.message })
                .collect(),
        };
        let mut response = (self.status, Json(document)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        let retry_after = self.retry_after.or((self.status == StatusCode::SERVICE_UNAVAILABLE).then_some(1));
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
