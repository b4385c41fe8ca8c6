//! One entry: what it is for, the code, and an authentication code over both.
//!
//! ```text
//!   0   8  magic
//!   8   4  format, little endian
//!  12  16  version of wasmtime, padded with zeros
//!  28  32  fingerprint of the engine: everything that decides what code it makes
//!  60  32  SHA-256 of the component
//!  92   8  length of the code, little endian
//! 100   n  the code
//!      32  HMAC-SHA256 of all that
//! ```

use std::hash::{Hash as _, Hasher};

use fettle_model::digest::Digest;
use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};
use wasmtime::{Engine, ModuleVersionStrategy};

use super::key::Key;
use crate::mutation::{Protection, off};

const MAGIC: [u8; 8] = *b"FETTLECC";
const FORMAT: u32 = 1;
const VERSION: usize = 16;
pub(super) const HEADER: usize = 100;
pub(super) const SEAL: usize = 32;

/// Why an entry is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Flaw {
    #[error("it is shorter than an entry can be")]
    Truncated,
    #[error("it was changed, cut, or made with another key")]
    Forged,
    #[error("it is the code of another component")]
    Swapped,
    #[error("it was compiled by another release or configuration of wasmtime, or for another processor")]
    Stale,
    #[error("it is no plain file")]
    NotPlain,
    #[error("others can write or read it")]
    NotPrivate,
    #[error("it is larger than an entry can be")]
    TooLarge,
    #[error("wasmtime refuses it")]
    Unusable,
}

/// What decides which code an engine makes, and can run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct EngineIdentity {
    version: [u8; VERSION],
    fingerprint: [u8; 32],
}

impl EngineIdentity {
    /// Of an engine.
    pub(super) fn of(engine: &Engine) -> Self {
        let mut hasher = Fingerprint(Sha256::new());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Self { version: version(), fingerprint: hasher.0.finalize().into() }
    }
}

/// The exact release of wasmtime: wasmtime itself compares only its major version when it loads code.
fn version() -> [u8; VERSION] {
    let mut heard = Heard([0; VERSION], 0);
    ModuleVersionStrategy::WasmtimeVersion.hash(&mut heard);
    heard.0
}

/// Hashes with SHA-256, whose result does not depend on the standard library.
struct Fingerprint(Sha256);

impl Hasher for Fingerprint {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

/// Keeps what it is given to hash: there is no other way to ask wasmtime for its release.
struct Heard([u8; VERSION], usize);

impl Hasher for Heard {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().filter(|byte| byte.is_ascii_graphic()) {
            if let Some(place) = self.0.get_mut(self.1) {
                *place = *byte;
                self.1 += 1;
            }
        }
    }

    fn finish(&self) -> u64 {
        0
    }
}

/// The first bytes of the entry for `component`.
pub(super) fn header(component: Digest, engine: &EngineIdentity, code: &[u8]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    header[12..28].copy_from_slice(&engine.version);
    header[28..60].copy_from_slice(&engine.fingerprint);
    header[60..92].copy_from_slice(component.as_bytes());
    header[92..].copy_from_slice(&(code.len() as u64).to_le_bytes());
    header
}

/// The last bytes of an entry.
pub(super) fn seal(key: &Key, header: &[u8; HEADER], code: &[u8]) -> [u8; SEAL] {
    authenticator(key).chain_update(header).chain_update(code).finalize().into_bytes().into()
}

/// The code in an entry, when it is right in every respect.
pub(super) fn open<'a>(
    key: &Key,
    component: Digest,
    engine: &EngineIdentity,
    entry: &'a [u8],
) -> Result<&'a [u8], Flaw> {
    // Nothing of an entry is believed before its seal is: not even what it says it is.
    let (sealed, seal) = entry.split_last_chunk::<SEAL>().ok_or(Flaw::Truncated)?;
    let right = authenticator(key).chain_update(sealed).verify(seal.into()).is_ok();
    if !right && !off(Protection::CodeIsAuthenticated) {
        return Err(Flaw::Forged);
    }
    let (found, code) = sealed.split_first_chunk::<HEADER>().ok_or(Flaw::Truncated)?;
    let wanted = header(component, engine, code);
    if found[92..] != wanted[92..] {
        return Err(Flaw::Truncated);
    }
    if found[..60] != wanted[..60] && !off(Protection::CodeNamesItsEngine) {
        return Err(Flaw::Stale);
    }
    if found[60..92] != wanted[60..92] && !off(Protection::CodeNamesItsComponent) {
        return Err(Flaw::Swapped);
    }
    Ok(code)
}

fn authenticator(key: &Key) -> Hmac<Sha256> {
    // What HMAC does with a key that is shorter than a block.
    let mut block = [0; 64];
    block[..key.bytes().len()].copy_from_slice(key.bytes());
    hmac::digest::KeyInit::new(&block.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &[u8] = b"machine code";

    fn engine(version: u8) -> EngineIdentity {
        EngineIdentity { version: [version; VERSION], fingerprint: [2; 32] }
    }

    fn entry(key: &Key, component: Digest, engine: &EngineIdentity) -> Vec<u8> {
        let header = header(component, engine, CODE);
        [&header[..], CODE, &seal(key, &header, CODE)].concat()
    }

    #[test]
    fn an_entry_opens_for_what_it_was_made_for() {
        let (key, component) = (Key::from_bytes([7; 32]), Digest::of(b"a"));
        let (other_key, other) = (Key::from_bytes([8; 32]), Digest::of(b"b"));
        let entry = entry(&key, component, &engine(1));
        assert_eq!(open(&key, component, &engine(1), &entry), Ok(CODE));
        assert_eq!(open(&key, other, &engine(1), &entry), Err(Flaw::Swapped));
        assert_eq!(open(&key, component, &engine(3), &entry), Err(Flaw::Stale));
        assert_eq!(open(&other_key, component, &engine(1), &entry), Err(Flaw::Forged));
    }

    #[test]
    fn an_entry_with_any_bit_flipped_or_cut_anywhere_does_not_open() {
        let (key, component) = (Key::from_bytes([7; 32]), Digest::of(b"a"));
        let entry = entry(&key, component, &engine(1));
        for place in 0..entry.len() * 8 {
            let mut flipped = entry.clone();
            flipped[place / 8] ^= 1 << (place % 8);
            assert_eq!(open(&key, component, &engine(1), &flipped), Err(Flaw::Forged), "bit {place}");
        }
        for length in 0..entry.len() {
            assert!(open(&key, component, &engine(1), &entry[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn the_release_of_wasmtime_is_named_to_its_patch() {
        let version = version();
        let text = str::from_utf8(&version).unwrap().trim_end_matches('\0');
        assert_eq!(text.split('.').filter(|part| part.parse::<u32>().is_ok()).count(), 3, "{text}");
    }
}
