//! What accompanies every request: a correlation id in and out, a time limit, a line in the log.

use std::time::Instant;

use axum::{
    extract::{Request, State as Extracted},
    http::{HeaderName, HeaderValue},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::Problem;
use crate::{state::State, submission::is_key};

/// The header, in requests and answers.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-correlation-id");

/// The correlation id of a request.
#[derive(Clone, Debug)]
pub(crate) struct CorrelationId(pub(crate) String);

/// Runs a request. Streams are limited only until they begin.
pub(crate) async fn accompany(Extracted(state): Extracted<State>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let sent = request.headers().get(HEADER).and_then(|value| value.to_str().ok()).filter(|text| is_key(text));
    let id = match sent {
        Some(id) => id.to_owned(),
        None => state.ulid().map(|id| id.to_string()).unwrap_or_default(),
    };
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    request.extensions_mut().insert(CorrelationId(id.clone()));
    let limit = state.config.request_timeout;
    let mut response = match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::timeout(limit.as_secs()).into_response(),
    };
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(HEADER, value);
    }
    // The path only: a query may hold what somebody types by mistake.
    tracing::info!(
        %method,
        path,
        status = response.status().as_u16(),
        milliseconds = started.elapsed().as_secs_f64() * 1e3,
        correlation_id = id,
        "request"
    );
    response
}
