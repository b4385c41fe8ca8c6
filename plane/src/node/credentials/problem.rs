//! What a node is answered in place of a credential: a problem document (RFC 9457) with a stable code.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use fettle_credentials::ProviderError;
use fettle_model::credential::IntentError;
use fettle_store::{StoreError, task::LeaseKey};
use serde_json::json;
use tonic::{Code, Status};

use crate::node::refusals;

/// Why there is no credential.
#[derive(Debug)]
pub(crate) struct NodeProblem {
    status: StatusCode,
    code: &'static str,
    detail: String,
}

impl NodeProblem {
    fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into() }
    }

    /// It does not follow from what was signed.
    pub(super) fn denied(code: &'static str, detail: String) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, detail)
    }

    /// The node does not hold the task.
    pub(super) fn stale(lease: &LeaseKey) -> Self {
        let detail = format!("the node does not hold task {} under epoch {}", lease.task_id, lease.epoch.0);
        Self::new(StatusCode::CONFLICT, "lease.stale", detail)
    }

    /// The node asks for more than any node needs.
    pub(super) fn too_many(most: u32) -> Self {
        let detail = format!("a node may ask for {most} credentials in a minute; try again later");
        Self::new(StatusCode::TOO_MANY_REQUESTS, "credential.too_many", detail)
    }

    /// The scope is none of the type.
    pub(super) fn scope(error: &IntentError) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "credential.scope", error.to_string())
    }

    /// The question is none.
    pub(super) fn malformed(error: &serde_json::Error) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "request.invalid", format!("the request cannot be read: {error}"))
    }

    /// The provider gave something else.
    pub(super) fn no_token() -> Self {
        let detail = "the provider gave no token; the log of the plane says more";
        Self::new(StatusCode::BAD_GATEWAY, "credential.provider_malformed", detail)
    }

    /// The system has no randomness.
    pub(super) fn no_randomness() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the plane has no randomness")
    }

    pub(super) fn code(&self) -> &'static str {
        self.code
    }

    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    /// Whether somebody was refused something, and not only answered later.
    pub(super) fn is_refusal(&self) -> bool {
        self.status.is_client_error()
    }
}

impl From<ProviderError> for NodeProblem {
    fn from(error: ProviderError) -> Self {
        tracing::warn!(%error, "a credential was not minted");
        let detail = error.to_string();
        match error {
            ProviderError::None(_) => Self::denied("credential.no_provider", detail),
            ProviderError::Refused { .. } => Self::denied("credential.provider_refused", detail),
            ProviderError::Unavailable { .. } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "credential.provider_unavailable", detail)
            }
            ProviderError::Malformed { .. } => {
                Self::new(StatusCode::BAD_GATEWAY, "credential.provider_malformed", detail)
            }
        }
    }
}

impl From<StoreError> for NodeProblem {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "a credential was not minted");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "store.unavailable", "the plane's database does not answer")
    }
}

/// What the calls of the node protocol are refused with.
impl From<Status> for NodeProblem {
    fn from(status: Status) -> Self {
        let http = match status.code() {
            Code::Unauthenticated => StatusCode::UNAUTHORIZED,
            Code::PermissionDenied => StatusCode::FORBIDDEN,
            Code::InvalidArgument => StatusCode::UNPROCESSABLE_ENTITY,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::FailedPrecondition => StatusCode::CONFLICT,
            Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(http, refusals::code_of(&status), status.message())
    }
}

impl IntoResponse for NodeProblem {
    fn into_response(self) -> Response {
        let Self { status, code, detail } = self;
        let document = json!({
            "type": format!("urn:fettle:problem:{code}"), "title": status.canonical_reason().unwrap_or("error"),
            "status": status.as_u16(), "code": code, "detail": detail,
        });
        let mut response = (status, Json(document)).into_response();
        let media_type = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, media_type);
        response
    }
}
