//! Documents of `fettle-model` inside messages.

use fettle_model::{
    failure::Failure,
    task::{StepEvent, Task},
};
use serde::{Serialize, de::DeserializeOwned};
use tonic::Status;

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

/// Reads the task of a lease.
///
/// # Errors
/// `InvalidArgument` when the text is no task.
pub fn task(text: &str) -> Result<Task, Status> {
    from_text("task", text)
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
