//! One byte form per value (RFC 8785), so that a digest means the same everywhere.

use serde::Serialize;

use crate::digest::Digest;

/// A value that canonical JSON cannot hold: a number that is not finite, or a map key that is no text.
#[derive(Debug, thiserror::Error)]
#[error("the value has no canonical JSON form")]
pub struct NotCanonical(#[source] serde_json::Error);

/// The canonical bytes of a value.
///
/// # Errors
/// When the value has no JSON form.
pub fn to_bytes<T: Serialize>(value: &T) -> Result<Vec<u8>, NotCanonical> {
    // Through `Value`, so that field order and number types do not depend on the Rust type.
    let value = serde_json::to_value(value).map_err(NotCanonical)?;
    serde_json_canonicalizer::to_vec(&value).map_err(NotCanonical)
}

/// The digest of a value's canonical bytes.
///
/// # Errors
/// When the value has no JSON form.
pub fn digest<T: Serialize>(value: &T) -> Result<Digest, NotCanonical> {
    Ok(Digest::of(&to_bytes(value)?))
}
