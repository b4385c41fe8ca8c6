//! Tokens, good and bad, of issuers that answer and that do not.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod keys;
mod support;
mod tokens;
