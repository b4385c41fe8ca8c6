//! One byte form per value (RFC 8785), so that a digest means the same everywhere.

use serde::Serialize;
use serde_json::Value;

use crate::{digest::Digest, violation::Violation};

/// A value that canonical JSON cannot hold.
#[derive(Debug, thiserror::Error)]
pub enum NotCanonical {
    /// A number that is not finite, or a map key that is no text.
    #[error("the value has no canonical JSON form")]
    Form(#[source] serde_json::Error),
    /// An integer that two readers could take for different numbers.
    #[error("the value has no canonical JSON form: {0}")]
    Integer(Violation),
}

/// The largest integer that every JSON reader holds exactly: 2^53 - 1 (RFC 8785 takes numbers as doubles).
const LARGEST_INTEGER: u64 = (1 << 53) - 1;

/// The integers of a value that have no exact canonical form, so that two values could share a digest.
#[must_use]
pub fn unsafe_integers(value: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    collect_unsafe(value, &Place::Root, &mut found);
    found
}

/// Where a value is in a document. It becomes a pointer only when there is something to say about it.
enum Place<'a> {
    Root,
    Item(&'a Self, usize),
    Field(&'a Self, &'a str),
}

impl Place<'_> {
    fn pointer(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Item(parent, index) => format!("{}/{index}", parent.pointer()),
            Self::Field(parent, name) => crate::expression::join(&parent.pointer(), name),
        }
    }
}

fn collect_unsafe(value: &Value, place: &Place<'_>, found: &mut Vec<Violation>) {
    match value {
        Value::Number(number) => {
            let magnitude = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
            if magnitude.is_some_and(|magnitude| magnitude > LARGEST_INTEGER) {
                let message =
                    format!("{number} is beyond 2^53 - 1, which JSON cannot carry exactly; write it as a text");
                found.push(Violation::new(place.pointer(), message));
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect_unsafe(item, &Place::Item(place, index), found);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                collect_unsafe(field, &Place::Field(place, name), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The canonical bytes of a value.
///
/// # Errors
/// When the value has no JSON form.
pub fn to_bytes<T: Serialize>(value: &T) -> Result<Vec<u8>, NotCanonical> {
    // Through `Value`, so that field order and number types do not depend on the Rust type.
    let value = serde_json::to_value(value).map_err(NotCanonical::Form)?;
    if let Some(violation) = unsafe_integers(&value).into_iter().next() {
        return Err(NotCanonical::Integer(violation));
    }
    if is_plain(&value) { serde_json::to_vec(&value) } else { serde_json_canonicalizer::to_vec(&value) }
        .map_err(NotCanonical::Form)
}

/// Whether the usual form of a value is its canonical one, and need not be sorted and rewritten: what the two differ in
/// are fractions and the order of fields.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => true,
        Value::Number(number) => !number.is_f64(),
        Value::Array(items) => items.iter().all(is_plain),
        Value::Object(fields) => {
            // Bytes and UTF-16 sort ASCII alike.
            fields.keys().is_sorted() && fields.iter().all(|(name, field)| name.is_ascii() && is_plain(field))
        }
    }
}

/// The digest of a value's canonical bytes.
///
/// # Errors
/// When the value has no JSON form.
pub fn digest<T: Serialize>(value: &T) -> Result<Digest, NotCanonical> {
    Ok(Digest::of(&to_bytes(value)?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Whether the value was taken for a plain one, and its form.
    fn form(value: &Value) -> (bool, String) {
        (is_plain(value), String::from_utf8(to_bytes(value).unwrap()).unwrap())
    }

    #[test]
    fn whatever_way_is_taken_the_form_is_that_of_rfc_8785() {
        let escaped: String = (0_u8..=0x7f).map(char::from).collect();
        for (value, plain) in [
            (json!(null), true),
            (json!({}), true),
            (json!({ "b": [1, -2, true, ""], "a": { "z": null, "Z": 9_007_199_254_740_991_u64 } }), true),
            (json!(escaped), true),
            (json!("\u{2028}\u{fffd}\u{10ffff}é"), true),
            (json!({ "a": [{ "b": 0.5 }] }), false),
            (json!(-0.0), false),
            (json!(1e21), false),
            // UTF-16 sorts these the other way round.
            (json!({ "\u{10000}": 1, "\u{e000}": 2 }), false),
            (json!({ "é": 1 }), false),
        ] {
            let expected = String::from_utf8(serde_json_canonicalizer::to_vec(&value).unwrap()).unwrap();
            assert_eq!(form(&value), (plain, expected), "{value}");
        }
    }

    #[test]
    fn fields_that_are_not_in_order_are_put_in_order() {
        #[derive(Serialize)]
        struct Backwards {
            b: u8,
            a: u8,
        }
        assert_eq!(to_bytes(&Backwards { b: 1, a: 2 }).unwrap(), br#"{"a":2,"b":1}"#);
    }
}
