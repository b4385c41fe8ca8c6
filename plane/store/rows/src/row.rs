//! From columns to values.

use std::str::FromStr;

use fettle_model::name::Label;
use fettle_store::{StoreError, project::Project};
use jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};

/// Reads a time.
///
/// # Errors
/// When it does not have the form it was written with; `what` names the record.
pub fn time(what: &'static str, milliseconds: i64) -> Result<Timestamp, StoreError> {
    Timestamp::from_millisecond(milliseconds).map_err(|error| StoreError::corrupt(what, error))
}

/// Reads a time that may be absent.
///
/// # Errors
/// When it does not have the form it was written with; `what` names the record.
pub fn optional_time(what: &'static str, milliseconds: Option<i64>) -> Result<Option<Timestamp>, StoreError> {
    milliseconds.map(|value| time(what, value)).transpose()
}

/// Reads a name or an identifier.
///
/// # Errors
/// When it does not have the form it was written with; `what` names the record.
pub fn parse<T>(what: &'static str, text: &str) -> Result<T, StoreError>
where
    T: FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    text.parse().map_err(|error: T::Err| StoreError::corrupt(what, error))
}

/// Reads a document.
///
/// # Errors
/// When it does not have the form it was written with; `what` names the record.
pub fn document<T: DeserializeOwned>(what: &'static str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::corrupt(what, error))
}

/// Reads a document that may be absent.
///
/// # Errors
/// When it does not have the form it was written with; `what` names the record.
pub fn optional_document<T: DeserializeOwned>(what: &'static str, text: Option<&str>) -> Result<Option<T>, StoreError> {
    text.map(|text| document(what, text)).transpose()
}

/// Writes a document.
///
/// # Errors
/// When it does not have the form it was written with; `what` names the record.
pub fn text<T: Serialize>(what: &'static str, value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::corrupt(what, error))
}

/// Reads a number that is not negative.
///
/// # Errors
/// When it does not have the form it was written with; `what` names the record.
pub fn number<T: TryFrom<i64>>(what: &'static str, value: i64) -> Result<T, StoreError>
where
    T::Error: std::error::Error + Send + Sync + 'static,
{
    T::try_from(value).map_err(|error| StoreError::corrupt(what, error))
}

/// Reads a project that may be absent.
///
/// # Errors
/// When it does not have the form it was written with; `what` names the record.
pub fn project(
    what: &'static str,
    org_id: Option<&str>,
    project_id: Option<&str>,
) -> Result<Option<Project>, StoreError> {
    let (Some(org_id), Some(project_id)) = (org_id, project_id) else { return Ok(None) };
    Ok(Some(Project { project_id: parse::<Label>(what, project_id)?, org_id: parse(what, org_id)? }))
}
