//! Calls of hosts as parts of the traces that they come from.

use fettle_telemetry::{SPANS, TraceParent, span};
use tonic::metadata::MetadataMap;

/// Where a call says that it is in a trace.
pub(super) fn sent(metadata: &MetadataMap) -> Option<TraceParent> {
    metadata.get("traceparent").and_then(|value| value.to_str().ok()).and_then(|text| text.parse().ok())
}

/// A span below the host's that lasts as long as this is kept; none outside every trace.
pub(super) fn begun(call: &'static str, sent: &str) -> Option<tracing::Span> {
    let sent: TraceParent = sent.parse().ok()?;
    let span = tracing::debug_span!(target: SPANS, "node", otel.name = call, otel.kind = "server");
    span::begin(&span, Some(sent));
    Some(span)
}

/// Does the work of a call in a span below the host's. A call outside every trace, like a heartbeat, makes none.
pub(super) async fn follow<F: Future>(call: &'static str, sent: Option<TraceParent>, work: F) -> F::Output {
    let Some(sent) = sent else { return work.await };
    let span = tracing::debug_span!(target: SPANS, "node", otel.name = call, otel.kind = "server");
    let place = span::begin(&span, Some(sent));
    span::within(span, place, work).await
}
