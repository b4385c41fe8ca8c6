//! An event as it is sent.

use fettle_store::event::Event;
use serde_json::json;

/// Names the event for ever: it is the same in every attempt, so that a receiver knows what it has.
pub(super) fn id(event: &Event) -> String {
    format!("evt_{}_{}", event.operation_id, event.sequence)
}

/// The body.
pub(super) fn body(event: &Event) -> String {
    json!({
        "type": event.kind.name(),
        "timestamp": event.at.to_string(),
        "sequence": event.sequence,
        "data": event.payload,
    })
    .to_string()
}
