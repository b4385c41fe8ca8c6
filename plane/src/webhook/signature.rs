//! Signatures in the manner of the Standard Webhooks specification: HMAC-SHA256 over `id.timestamp.body`.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use fettle_store::webhook::{SigningSecret, Webhook};
use hmac::{Hmac, Mac as _};
use jiff::Timestamp;
use sha2::Sha256;

use crate::clock::{Clock, NoRandomness};

/// What a secret begins with.
const PREFIX: &str = "whsec_";

/// Random bytes of a secret.
const BYTES: usize = 32;

/// A new secret.
///
/// # Errors
/// When the operating system has no randomness.
pub(crate) fn new_secret(clock: &dyn Clock) -> Result<SigningSecret, NoRandomness> {
    let mut bytes = [0; BYTES];
    clock.random(&mut bytes)?;
    Ok(SigningSecret::new(format!("{PREFIX}{}", STANDARD.encode(bytes))))
}

/// The header `webhook-signature`: one signature, and while a secret is being rotated one of each.
pub(super) fn header(webhook: &Webhook, id: &str, seconds: &str, body: &str, now: Timestamp) -> String {
    let previous = webhook.previous.as_ref().filter(|(_, until)| *until > now).map(|(secret, _)| secret);
    let signatures = [Some(&webhook.secret), previous];
    let signatures: Vec<String> =
        signatures.into_iter().flatten().map(|secret| sign(secret, id, seconds, body)).collect();
    signatures.join(" ")
}

fn sign(secret: &SigningSecret, id: &str, seconds: &str, body: &str) -> String {
    let text = secret.reveal();
    // A secret that is no base64 was not made here; its bytes serve as well.
    let key = STANDARD.decode(text.strip_prefix(PREFIX).unwrap_or(text)).unwrap_or_else(|_| text.as_bytes().to_vec());
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
        let theirs = standardwebhooks::Webhook::new(secret.reveal()).unwrap();
        for (id, seconds, body) in [("evt_1", 1_800_000_000_i64, "{}"), ("a.b", 1, "ä\n")] {
            let expected = theirs.sign(id, seconds, body.as_bytes()).unwrap();
            assert_eq!(sign(&secret, id, &seconds.to_string(), body), expected);
        }
    }

    #[test]
    fn secrets_differ_and_have_the_form_of_the_specification() {
        let (first, second) = (new_secret(&SystemClock).unwrap(), new_secret(&SystemClock).unwrap());
        assert!(first != second && first.reveal().starts_with("whsec_"));
        assert_eq!(STANDARD.decode(&first.reveal()["whsec_".len()..]).unwrap().len(), BYTES);
    }
}
