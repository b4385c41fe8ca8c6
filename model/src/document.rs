//! Reading the documents that administrators write: YAML or JSON, strict, with the place of an error.

use serde::de::DeserializeOwned;
use serde_path_to_error::{Path, Segment};

/// Why a document cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It is not YAML (JSON is YAML too).
    #[error("it is not valid YAML: {0}")]
    Syntax(String),
    /// It does not have the form it should.
    #[error("{pointer}: {message}")]
    Form {
        /// JSON pointer (RFC 6901) to the value; `/` for the whole document.
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
        .map_err(|error| DocumentError::Form { pointer: pointer(error.path()), message: error.inner().to_string() })
}

fn pointer(path: &Path) -> String {
    let segment = |segment: &Segment| match segment {
        Segment::Seq { index } => index.to_string(),
        Segment::Map { key } | Segment::Enum { variant: key } => key.replace('~', "~0").replace('/', "~1"),
        Segment::Unknown => "?".to_owned(),
    };
    format!("/{}", path.iter().map(segment).collect::<Vec<_>>().join("/"))
}

#[cfg(test)]
mod tests {
    use crate::{catalog::Catalog, definition::Definition};

    #[test]
    fn an_error_points_at_the_value_whatever_its_key() {
        let error = super::read::<Catalog>("{steps: {noop@v1: localhost/a:latest}}").unwrap_err().to_string();
        assert!(error.starts_with("/steps/noop@v1: `localhost/a:latest` names a tag"), "{error}");
        let text = "{operation_type: a, version: v1, backend_type: node_agent, input_schema: {},
            steps: [{id: a, uses: noop@v1, grants: {shell: {}}}]}";
        let error = super::read::<Definition>(text).unwrap_err().to_string();
        assert!(error.starts_with("/steps/0/grants/shell: unknown field `shell`"), "{error}");
    }
}
