//! A key that a device keeps to itself: PKCS #11, which security modules, key services and smart cards speak. The key is made
//! on the device, never leaves it, and signs there.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError},
};

use cryptoki::{
    context::{CInitializeArgs, CInitializeFlags, Pkcs11},
    error::{Error, RvError},
    mechanism::Mechanism,
    object::{Attribute, AttributeType, ObjectClass},
    session::{Session, UserType},
    slot::Slot,
};
use rcgen::PKCS_ECDSA_P256_SHA256;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::AuthorityKey;

/// OID 1.2.840.10045.3.1.7, the curve P-256, as `CKA_EC_PARAMS` wants it (RFC 5480, 2.1.1.1).
const P256: [u8; 10] = [0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];

/// An uncompressed point of P-256: 4, then two numbers of 32 bytes (SEC 1, 2.3.3).
const POINT: usize = 65;

/// What the key is called on the device.
const LABEL: &str = "fettle node authority";

/// Where a device is. It holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// The device's PKCS #11 library.
    pub module: PathBuf,
    /// The label of the token on it.
    pub token: String,
    /// A file with the token's PIN, which its owner alone may read.
    pub pin_file: PathBuf,
}

/// Which key on which device. It holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Place {
    #[serde(flatten)]
    device: Device,
    /// `CKA_ID` in hexadecimal.
    id: String,
    /// The point of the public key in hexadecimal.
    point: String,
}

/// Why a device makes no key, or does not sign.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The library is none of PKCS #11, or does not begin.
    #[error("{} cannot be used as a PKCS #11 library", module.display())]
    Module {
        /// Which.
        module: PathBuf,
        /// What went wrong.
        #[source]
        source: Error,
    },
    /// There is no such token.
    #[error("{} has no token `{token}`; `pkcs11-tool --list-slots` shows those that are there", module.display())]
    Token {
        /// The library.
        module: PathBuf,
        /// The label.
        token: String,
    },
    /// The PIN cannot be read.
    #[error("the PIN in {} cannot be read", path.display())]
    Pin {
        /// The file.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: std::io::Error,
    },
    /// Others could read the PIN.
    #[error("{} may be read by others than its owner; run `chmod 600` on it, and change the PIN if others had access", .0.display())]
    OpenPin(PathBuf),
    /// The PIN is wrong.
    #[error("token `{token}` does not take the PIN in {}; devices lock after a few wrong ones", path.display())]
    WrongPin {
        /// The token.
        token: String,
        /// The file.
        path: PathBuf,
    },
    /// The key is gone.
    #[error("token `{token}` has no key `{id}`; restore the device from its backup, or rotate the authority")]
    NoKey {
        /// The token.
        token: String,
        /// Its id.
        id: String,
    },
    /// The device answered something else than it should.
    #[error("token `{token}` answered with {what} that is none")]
    Malformed {
        /// The token.
        token: String,
        /// What.
        what: &'static str,
    },
    /// Anything else that the device says.
    #[error("token `{token}` failed")]
    Failed {
        /// The token.
        token: String,
        /// What it said.
        #[source]
        source: Error,
    },
}

/// A key on a device. The device is asked when something is signed, and not before.
pub(crate) struct DeviceKey {
    place: Place,
    point: Vec<u8>,
    failure: Mutex<Option<String>>,
}

/// Libraries of this process: each is begun once. One question after the other, for a token has one login.
fn modules() -> &'static Mutex<BTreeMap<PathBuf, Pkcs11>> {
    static MODULES: OnceLock<Mutex<BTreeMap<PathBuf, Pkcs11>>> = OnceLock::new();
    MODULES.get_or_init(Mutex::default)
}

impl Device {
    /// Makes a key there that never leaves it; answers where it is.
    pub(crate) fn generate(&self, id: &[u8]) -> Result<DeviceKey, DeviceError> {
        let point = self.with_session(|session| {
            let public = [
                Attribute::Token(true),
                Attribute::Verify(true),
                Attribute::EcParams(P256.to_vec()),
                Attribute::Label(LABEL.into()),
                Attribute::Id(id.to_vec()),
            ];
            let private = [
                Attribute::Token(true),
                Attribute::Private(true),
                Attribute::Sensitive(true),
                Attribute::Extractable(false),
                Attribute::Sign(true),
                Attribute::Label(LABEL.into()),
                Attribute::Id(id.to_vec()),
            ];
            let (public, _) = session
                .generate_key_pair(&Mechanism::EccKeyPairGen, &public, &private)
                .map_err(|source| self.failed(source))?;
            let read = session.get_attributes(public, &[AttributeType::EcPoint]);
            let read = read.map_err(|source| self.failed(source))?;
            let point = read.into_iter().find_map(|attribute| match attribute {
                Attribute::EcPoint(point) => Some(point),
                _ => None,
            });
            point.as_deref().and_then(point_of).ok_or_else(|| self.malformed("a public key"))
        })?;
        let place = Place { device: self.clone(), id: hex::encode(id), point: hex::encode(&point) };
        Ok(DeviceKey { place, point, failure: Mutex::default() })
    }

    fn with_session<T>(&self, act: impl FnOnce(&Session) -> Result<T, DeviceError>) -> Result<T, DeviceError> {
        let mut modules = modules().lock().unwrap_or_else(PoisonError::into_inner);
        let module = match modules.get(&self.module) {
            Some(module) => module.clone(),
            None => {
                let module = begin(&self.module)
                    .map_err(|source| DeviceError::Module { module: self.module.clone(), source })?;
                modules.insert(self.module.clone(), module.clone());
                module
            }
        };
        let session = module.open_rw_session(self.slot(&module)?).map_err(|source| self.failed(source))?;
        let pin = read_pin(&self.pin_file)?;
        match session.login(UserType::User, Some(&pin.as_str().into())) {
            Ok(()) | Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => {}
            Err(Error::Pkcs11(RvError::PinIncorrect | RvError::PinInvalid | RvError::PinLenRange, _)) => {
                return Err(DeviceError::WrongPin { token: self.token.clone(), path: self.pin_file.clone() });
            }
            Err(source) => return Err(self.failed(source)),
        }
        act(&session)
    }

    fn slot(&self, module: &Pkcs11) -> Result<Slot, DeviceError> {
        let slots = module.get_slots_with_token().map_err(|source| self.failed(source))?;
        let named = slots
            .into_iter()
            .find(|slot| module.get_token_info(*slot).is_ok_and(|token| token.label().trim_end() == self.token));
        named.ok_or_else(|| DeviceError::Token { module: self.module.clone(), token: self.token.clone() })
    }

    fn failed(&self, source: Error) -> DeviceError {
        DeviceError::Failed { token: self.token.clone(), source }
    }

    fn malformed(&self, what: &'static str) -> DeviceError {
        DeviceError::Malformed { token: self.token.clone(), what }
    }
}

fn begin(module: &Path) -> Result<Pkcs11, Error> {
    let begun = Pkcs11::new(module)?;
    match begun.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)) {
        Ok(()) | Err(Error::Pkcs11(RvError::CryptokiAlreadyInitialized, _)) => Ok(begun),
        Err(error) => Err(error),
    }
}

fn read_pin(path: &Path) -> Result<Zeroizing<String>, DeviceError> {
    use std::os::unix::fs::PermissionsExt as _;
    let failed = |source| DeviceError::Pin { path: path.to_owned(), source };
    if std::fs::metadata(path).map_err(failed)?.permissions().mode() & 0o077 != 0 {
        return Err(DeviceError::OpenPin(path.to_owned()));
    }
    let text = Zeroizing::new(std::fs::read_to_string(path).map_err(failed)?);
    Ok(Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned()))
}

/// `CKA_EC_POINT` is an octet string with the point in it; some devices leave the wrapping out.
fn point_of(attribute: &[u8]) -> Option<Vec<u8>> {
    let is_point = |bytes: &[u8]| bytes.len() == POINT && bytes[0] == 4;
    let unwrapped = yasna::parse_der(attribute, |reader| reader.read_bytes()).ok();
    unwrapped.filter(|bytes| is_point(bytes)).or_else(|| is_point(attribute).then(|| attribute.to_vec()))
}

/// Two numbers as certificates have them (RFC 3279, 2.2.3), from two numbers one after the other.
fn signature_of(raw: &[u8]) -> Option<Vec<u8>> {
    let (r, s) = raw.split_at_checked(32).filter(|(_, s)| s.len() == 32)?;
    Some(yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_bigint_bytes(r, true);
            writer.next().write_bigint_bytes(s, true);
        });
    }))
}

impl DeviceKey {
    /// The key at this place; none when the place makes no sense.
    pub(crate) fn at(place: Place) -> Option<Self> {
        let point = hex::decode(&place.point).ok().and_then(|point| point_of(&point))?;
        Some(Self { place, point, failure: Mutex::default() })
    }

    pub(crate) const fn place(&self) -> &Place {
        &self.place
    }

    fn sign_there(&self, message: &[u8]) -> Result<Vec<u8>, DeviceError> {
        let Place { device, id, .. } = &self.place;
        let no_key = || DeviceError::NoKey { token: device.token.clone(), id: id.clone() };
        device.with_session(|session| {
            let id = hex::decode(id).map_err(|_| no_key())?;
            let key = [Attribute::Class(ObjectClass::PRIVATE_KEY), Attribute::Id(id)];
            let found = session.find_objects(&key).map_err(|source| device.failed(source))?;
            let key = *found.first().ok_or_else(no_key)?;
            let digest = Sha256::digest(message);
            let raw = session.sign(&Mechanism::Ecdsa, key, &digest).map_err(|source| device.failed(source))?;
            signature_of(&raw).ok_or_else(|| device.malformed("a signature"))
        })
    }
}

impl rcgen::PublicKeyData for DeviceKey {
    fn der_bytes(&self) -> &[u8] {
        &self.point
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl rcgen::SigningKey for DeviceKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        let signed = self.sign_there(message);
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        *failure = signed.as_ref().err().map(in_words);
        signed.map_err(|_| rcgen::Error::RemoteKeyError)
    }
}

impl AuthorityKey for DeviceKey {
    fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn in_words(error: &DeviceError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_read_with_and_without_its_wrapping() {
        let point: Vec<u8> = std::iter::once(4).chain([7; 64]).collect();
        let wrapped: Vec<u8> = [4, 65].into_iter().chain(point.clone()).collect();
        assert_eq!(point_of(&wrapped).as_ref(), Some(&point));
        assert_eq!(point_of(&point).as_ref(), Some(&point));
        for wrong in [&[][..], &[4, 2, 1, 1], &point[1..], &wrapped[..66]] {
            assert_eq!(point_of(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_signature_is_two_positive_numbers() {
        let mut raw = [0; 64];
        (raw[31], raw[32]) = (1, 0x80);
        let der = signature_of(&raw).unwrap();
        assert_eq!(der[..7], [0x30, 38, 2, 1, 1, 2, 33]);
        assert_eq!(der[7..9], [0, 0x80], "a number whose first bit is set has a zero before it");
        assert_eq!(signature_of(&raw[..63]), None);
    }
}
