//! What a token says of itself, as far as its holder needs it. Nothing is believed: the plane verifies it.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde::Deserialize;

#[derive(Deserialize)]
struct Claims {
    exp: Option<f64>,
}

/// When a token ends, if it says so.
pub(super) fn expires_at(token: &str) -> Option<Timestamp> {
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let Claims { exp } = serde_json::from_slice(&payload).ok()?;
    #[expect(clippy::cast_possible_truncation, reason = "a time, and one that is too large is none")]
    Timestamp::from_second(exp? as i64).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_when_it_ends_or_nothing() {
        let token = |claims: &str| format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims));
        for (token, expected) in [
            (token(r#"{"exp": 1700000000}"#), Some(1_700_000_000)),
            (token(r#"{"exp": 1700000000.5}"#), Some(1_700_000_000)),
            (token("{}"), None),
            (token("[]"), None),
            ("opaque".to_owned(), None),
            ("a.%%%.b".to_owned(), None),
        ] {
            assert_eq!(expires_at(&token).map(Timestamp::as_second), expected, "{token}");
        }
    }
}
