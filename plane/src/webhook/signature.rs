//! Signatures in the manner of the Standard Webhooks specification: HMAC-SHA256 over `id.timestamp.body`.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::clock::{Clock, NoRandomness};

/// What a secret begins with.
const PREFIX: &str = "whsec_";

/// Random bytes of a secret.
const BYTES: usize = 32;

/// A new secret.
///
/// # Errors
/// When the operating system has no randomness.
pub(crate) fn new_secret(clock: &dyn Clock) -> Result<Zeroizing<String>, NoRandomness> {
    let mut bytes = Zeroizing::new([0; BYTES]);
    clock.random(&mut *bytes)?;
    let text = Zeroizing::new(STANDARD.encode(*bytes));
    Ok(Zeroizing::new(format!("{PREFIX}{}", *text)))
}

/// The header `webhook-signature`: one signature, and while a secret is being rotated one of each.
pub(super) fn header(secrets: &[Zeroizing<String>], id: &str, seconds: &str, body: &str) -> String {
    let signatures: Vec<String> = secrets.iter().map(|secret| sign(secret, id, seconds, body)).collect();
    signatures.join(" ")
}

fn sign(text: &str, id: &str, seconds: &str, body: &str) -> String {
    // A secret that is no base64 was not made here; its bytes serve as well.
    let key = STANDARD.decode(text.strip_prefix(PREFIX).unwrap_or(text)).unwrap_or_else(|_| text.as_bytes().to_vec());
    let key = Zeroizing::new(key);
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&key) else { return String::new() };
    for part in [id, ".", seconds, ".", body] {
        mac.update(part.as_bytes());
    }
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    #[test]
    fn the_library_of_the_specification_accepts_what_is_signed() {
        let secret = new_secret(&SystemClock).unwrap();
        let theirs = standardwebhooks::Webhook::new(&secret).unwrap();
        for (id, seconds, body) in [("evt_1", 1_800_000_000_i64, "{}"), ("a.b", 1, "ä\n")] {
            let expected = theirs.sign(id, seconds, body.as_bytes()).unwrap();
            assert_eq!(sign(&secret, id, &seconds.to_string(), body), expected);
        }
    }

    #[test]
    fn secrets_differ_and_have_the_form_of_the_specification() {
        let (first, second) = (new_secret(&SystemClock).unwrap(), new_secret(&SystemClock).unwrap());
        assert!(first != second && first.starts_with("whsec_"));
        assert_eq!(STANDARD.decode(&first["whsec_".len()..]).unwrap().len(), BYTES);
    }
}
