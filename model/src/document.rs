//! Reading the documents that administrators write: YAML or JSON, strict, with the place of an error.

use serde::de::DeserializeOwned;

/// Why a document cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It is not YAML (JSON is YAML too).
    #[error("it is not valid YAML: {0}")]
    Syntax(String),
    /// It does not have the form it should.
    #[error("{pointer}: {message}")]
    Form {
        /// Dotted path to the value.
        pointer: String,
        /// What is wrong with it.
        message: String,
    },
}

/// Reads YAML or JSON text.
///
/// # Errors
/// When it is no YAML, or has unknown, missing or malformed fields; the error names the field.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, DocumentError> {
    let value: serde_json::Value =
        serde_norway::from_str(text).map_err(|error| DocumentError::Syntax(error.to_string()))?;
    serde_path_to_error::deserialize(value)
        .map_err(|error| DocumentError::Form { pointer: error.path().to_string(), message: error.inner().to_string() })
}
