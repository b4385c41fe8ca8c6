//! Names as WIT writes them: `user-id`, `access-denied`, whatever Rust makes of them.

/// Adds `name`, a Rust field (`user_id`) or variant (`AccessDenied`), in WIT's form.
pub(super) fn push_wit(text: &mut Vec<u8>, name: &str) {
    let raw = name.strip_prefix("r#").unwrap_or(name);
    for (index, byte) in raw.bytes().enumerate() {
        match byte {
            b'_' => text.push(b'-'),
            b'A'..=b'Z' => {
                if index > 0 {
                    text.push(b'-');
                }
                text.push(byte.to_ascii_lowercase());
            }
            _ => text.push(byte),
        }
    }
}

/// Whether `written` is WIT's form of the Rust name `name`.
pub(super) fn is_wit(written: &str, name: &str) -> bool {
    let mut text = Vec::with_capacity(name.len() + 4);
    push_wit(&mut text, name);
    text == written.as_bytes()
}

/// WIT's form of a Rust name.
#[must_use]
pub fn wit(name: &str) -> String {
    let mut text = Vec::with_capacity(name.len() + 4);
    push_wit(&mut text, name);
    String::from_utf8_lossy(&text).into_owned()
}
