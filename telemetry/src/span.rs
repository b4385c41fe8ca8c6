//! Spans, and the place in a trace that work is at.
//!
//! Spans are those of `tracing`, with [`SPANS`] as their target, and without messages, inputs or arguments as
//! fields: a collector is another system than the one that holds the secrets. Those below the level of the log cost
//! one load of an atomic while no collector is named.

use opentelemetry::trace::TraceContextExt as _;
use tracing::{Instrument as _, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::TraceParent;

/// The target of every span that a collector gets.
pub const SPANS: &str = "fettle_span";

tokio::task_local! {
    static CURRENT: TraceParent;
}

/// Where the calling task is, when it is in any trace.
#[must_use]
pub fn current() -> Option<TraceParent> {
    CURRENT.try_with(|current| *current).ok()
}

/// Puts a span below `parent`, or else below the span it was made in. Answers where work in it is: the span itself
/// when it is recorded, else where it would have been without the span.
pub fn begin(span: &Span, parent: Option<TraceParent>) -> Option<TraceParent> {
    if let Some(parent) = parent {
        // Fails when nothing records it.
        let _ = span.set_parent(opentelemetry::Context::new().with_remote_span_context(parent.remote()));
    }
    let context = span.context();
    let own = TraceParent::of(context.span().span_context());
    own.or(parent).or_else(current)
}

/// Says that `span` has also to do with work that `other` began.
pub fn link(span: &Span, other: TraceParent) {
    span.add_link(other.remote());
}

/// Does the work in a span that [`begin`] has begun, and at the place that it answered.
pub async fn within<F: Future>(span: Span, place: Option<TraceParent>, work: F) -> F::Output {
    let work = work.instrument(span);
    match place {
        Some(place) => CURRENT.scope(place, work).await,
        None => work.await,
    }
}

/// Does the work in a span below the one it was made in. Nothing happens around it when the span is not recorded.
pub async fn inside<F: Future>(span: &Span, work: F) -> F::Output {
    if span.is_disabled() {
        return work.await;
    }
    within(span.clone(), begin(span, None), work).await
}
