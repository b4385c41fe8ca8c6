//! From the contract's JSON to a step's types and back.

use serde::{Serialize, de::DeserializeOwned};
use serde_path_to_error::{Path, Segment};

use crate::Failure;

/// Reads `json` as the type that `what` (`input`, `output`) has.
pub(crate) fn parse<T: DeserializeOwned>(kind: &str, what: &str, json: &str) -> Result<T, Failure> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let place = pointer(error.path());
        Failure::invalid_input(
            format!("{what}.invalid"),
            format!("the {what} of {kind} does not fit{place}: {}", error.inner()),
        )
    })?;
    deserializer.end().map_err(|error| {
        Failure::invalid_input(
            format!("{what}.invalid"),
            format!("the {what} of {kind} is not one JSON value: {error}"),
        )
    })?;
    Ok(value)
}

/// Writes what a step answers.
pub(crate) fn print<T: Serialize>(kind: &str, output: &T) -> Result<String, Failure> {
    serde_json::to_string(output).map_err(|error| {
        Failure::permanent(
            "output.not-json",
            format!("{kind} made an output that JSON cannot hold: {error}; this is a fault of the step"),
        )
    })
}

/// `` at `/a/0` ``, or nothing for the whole document.
fn pointer(path: &Path) -> String {
    let mut text = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => text.push_str(&format!("/{index}")),
            Segment::Map { key } => text.push_str(&format!("/{}", key.replace('~', "~0").replace('/', "~1"))),
            Segment::Enum { variant } => text.push_str(&format!("/{variant}")),
            Segment::Unknown => {}
        }
    }
    if text.is_empty() { text } else { format!(" at `{text}`") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Input {
        #[expect(dead_code, reason = "only parsed")]
        limits: Vec<Limit>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Limit {
        #[expect(dead_code, reason = "only parsed")]
        bytes: u64,
    }

    #[test]
    fn what_does_not_fit_is_named_with_its_place() {
        for (json, expected) in [
            (
                r#"{"limits": [{"bytes": 1}, {"bytes": "x"}]}"#,
                "at `/limits/1/bytes`: invalid type: string \"x\", expected u64",
            ),
            (r#"{"limits": [{"size": 1}]}"#, "at `/limits/0/size`: unknown field `size`, expected `bytes`"),
            ("{}", "does not fit: missing field `limits`"),
            (r#"{"limits": []} {}"#, "is not one JSON value"),
            ("", "EOF while parsing"),
        ] {
            let failure = parse::<Input>("a@v1", "input", json).unwrap_err();
            assert!(failure.message.contains(expected), "{failure}");
            assert_eq!((failure.class, failure.code.as_str()), (crate::FailureClass::InvalidInput, "input.invalid"));
        }
    }
}
