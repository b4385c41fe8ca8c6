//! Documents of `fettle-model` inside messages.

use fettle_model::{assignment::Assignment, failure::Failure, task::StepEvent};
use serde::{Serialize, de::DeserializeOwned};
use tonic::Status;

use crate::node::Lease;

/// Writes a document into a message.
///
/// # Errors
/// `Internal` when the value has no JSON form.
pub fn to_text<T: Serialize>(value: &T) -> Result<String, Status> {
    serde_json::to_string(value).map_err(|error| Status::internal(format!("a message cannot be written: {error}")))
}

fn from_text<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, Status> {
    serde_json::from_str(text).map_err(|error| Status::invalid_argument(format!("`{what}` is malformed: {error}")))
}

/// Reads what a lease assigns. Who signed it is not looked at.
///
/// # Errors
/// `InvalidArgument` when there is none, or the text is none.
pub fn assignment(lease: &Lease) -> Result<Assignment, Status> {
    let payload = lease.envelope.as_ref().map(|envelope| envelope.payload.as_slice()).unwrap_or_default();
    serde_json::from_slice(payload)
        .map_err(|error| Status::invalid_argument(format!("`envelope.payload` is malformed: {error}")))
}

/// Reads the event of a report.
///
/// # Errors
/// `InvalidArgument` when the text is no event.
pub fn event(text: &str) -> Result<StepEvent, Status> {
    from_text("event", text)
}

/// Reads the failure of a task.
///
/// # Errors
/// `InvalidArgument` when the text is no failure.
pub fn failure(text: &str) -> Result<Failure, Status> {
    from_text("failure", text)
}
