//! What accompanies every request: a correlation id in and out, a time limit, a line in the log.

use std::time::Instant;

use axum::{
    extract::{MatchedPath, Request, State as Extracted},
    http::{HeaderName, HeaderValue, Method},
    middleware::Next,
    response::{IntoResponse, Response},
};

use fettle_telemetry::{SPANS, TraceParent, span};
use tracing::{Span, field::Empty};

use super::Problem;
use crate::{state::State, submission::is_key};

/// The header, in requests and answers.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-correlation-id");

/// Where a request is in a trace, in requests and answers (W3C Trace Context).
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

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
    let endpoint = request.extensions().get::<MatchedPath>().map_or("unknown", MatchedPath::as_str).to_owned();
    let (span, place) = begin(&state, &request, &endpoint, &id);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    request.extensions_mut().insert(CorrelationId(id.clone()));
    let limit = state.config.request_timeout;
    let work = span::within(span.clone(), place, next.run(request));
    let mut response = match tokio::time::timeout(limit, work).await {
        Ok(response) => response,
        Err(_) => Problem::timeout(limit.as_secs()).into_response(),
    };
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(HEADER, value);
    }
    if let Some(value) = place.and_then(|place| HeaderValue::from_str(&place.to_string()).ok()) {
        response.headers_mut().insert(TRACE_PARENT, value);
    }
    let status = response.status();
    span.record("http.response.status_code", status.as_u16());
    let metrics = &state.metrics;
    let known = known_method(&method);
    metrics.requests.with([known, &endpoint, status.as_str()]).inc();
    metrics.request_duration.with([known, &endpoint]).observe(started.elapsed().as_secs_f64());
    let _inside = span.enter();
    // The path only: a query may hold what somebody types by mistake.
    tracing::info!(
        %method,
        path,
        status = status.as_u16(),
        milliseconds = started.elapsed().as_secs_f64() * 1e3,
        correlation_id = id,
        trace_id = place.as_ref().map(TraceParent::trace_id),
        span_id = place.as_ref().map(TraceParent::span_id),
        "request"
    );
    response
}

/// The span of a request, and where the request is in a trace: below the one that it came with, if it did.
fn begin(state: &State, request: &Request, endpoint: &str, correlation_id: &str) -> (Span, Option<TraceParent>) {
    let sent = request.headers().get(TRACE_PARENT).and_then(|value| value.to_str().ok());
    let sent = sent.and_then(|text| text.parse::<TraceParent>().ok());
    let method = known_method(request.method());
    let span = tracing::debug_span!(
        target: SPANS,
        "request",
        otel.name = format!("{method} {endpoint}"),
        otel.kind = "server",
        http.request.method = method,
        http.route = endpoint,
        http.response.status_code = Empty,
        correlation_id,
    );
    let place = span::begin(&span, sent).or_else(|| state.unrecorded_trace().ok());
    (span, place)
}

/// The method, if it is one: anybody can make up others.
fn known_method(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}
