//! Keys: ECDSA over P-256 with SHA-256, and Ed25519, in the file formats that cosign writes and reads.

use std::{fmt, io::Write, os::unix::fs::OpenOptionsExt, path::Path, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use fettle_model::digest::Digest;
use serde::{Deserialize, Serialize};
use sigstore::crypto::{
    CosignVerificationKey, Signature, SigningScheme,
    signing_key::{
        COSIGN_PRIVATE_KEY_PEM_LABEL, PRIVATE_KEY_PEM_LABEL, SIGSTORE_PRIVATE_KEY_PEM_LABEL, SigStoreKeyPair,
        ecdsa::{ECDSAKeys, EllipticCurve},
        ed25519::Ed25519Keys,
    },
};
use sigstore_verify::{crypto, types};

/// Why a key cannot be made, read or written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum KeyError {
    /// The system gave no key.
    #[error("cannot generate a key")]
    Generate(#[source] Arc<sigstore::errors::SigstoreError>),
    /// Not a private key that can sign.
    #[error(
        "the private key cannot be read; expected PEM `{COSIGN_PRIVATE_KEY_PEM_LABEL}` or `{PRIVATE_KEY_PEM_LABEL}` with an ECDSA P-256 or Ed25519 key, and the right password"
    )]
    Private(#[source] Option<Arc<sigstore::errors::SigstoreError>>),
    /// Not a public key that can verify.
    #[error("the public key cannot be read; expected PEM `PUBLIC KEY` with one ECDSA P-256 or Ed25519 key")]
    Public(#[source] Option<Arc<sigstore::errors::SigstoreError>>),
    /// The file system failed.
    #[error("cannot write the key file {path}; choose a path that does not exist yet, in a directory you own")]
    Write {
        /// The file.
        path: String,
        /// The error below.
        #[source]
        source: Arc<std::io::Error>,
    },
    /// The file system failed.
    #[error("cannot read the key file {path}")]
    Read {
        /// The file.
        path: String,
        /// The error below.
        #[source]
        source: Arc<std::io::Error>,
    },
    /// The library refused to sign.
    #[error("cannot sign")]
    Sign(#[source] Arc<sigstore::errors::SigstoreError>),
}

/// The SHA-256 of a public key's DER form: its short name everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyId(Digest);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Which kind of key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KeyType {
    /// ECDSA over the curve P-256 with SHA-256. What every tool reads.
    #[default]
    EcdsaP256,
    /// Ed25519 over the whole message.
    Ed25519,
}

impl KeyType {
    fn scheme(self) -> SigningScheme {
        match self {
            Self::EcdsaP256 => SigningScheme::ECDSA_P256_SHA256_ASN1,
            Self::Ed25519 => SigningScheme::ED25519,
        }
    }
}

/// A key that can sign. Wiped from memory when dropped.
pub struct SigningKey {
    keys: SigStoreKeyPair,
    public: PublicKey,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public.id())
    }
}

impl SigningKey {
    /// A new ECDSA P-256 key from the system's randomness.
    ///
    /// # Errors
    /// When there is none.
    pub fn generate() -> Result<Self, KeyError> {
        Self::generate_as(KeyType::EcdsaP256)
    }

    /// A new key from the system's randomness.
    ///
    /// # Errors
    /// When there is none.
    pub fn generate_as(key_type: KeyType) -> Result<Self, KeyError> {
        let keys = match key_type {
            KeyType::EcdsaP256 => ECDSAKeys::new(EllipticCurve::P256).map(SigStoreKeyPair::ECDSA),
            KeyType::Ed25519 => Ed25519Keys::new().map(SigStoreKeyPair::ED25519),
        };
        Self::from_keys(keys.map_err(|error| KeyError::Generate(Arc::new(error)))?)
    }

    /// Reads PEM text: cosign's encrypted form, or plain PKCS#8 (the password is not used then).
    ///
    /// # Errors
    /// When it is neither, the password is wrong, or the key is of another type.
    pub fn from_pem(pem: &[u8], password: &[u8]) -> Result<Self, KeyError> {
        let has = |label: &str| find(pem, format!("-----BEGIN {label}-----").as_bytes());
        let keys = if has(COSIGN_PRIVATE_KEY_PEM_LABEL) || has(SIGSTORE_PRIVATE_KEY_PEM_LABEL) {
            SigStoreKeyPair::from_encrypted_pem(pem, password)
        } else {
            SigStoreKeyPair::from_pem(pem)
        };
        Self::from_keys(keys.map_err(|error| KeyError::Private(Some(Arc::new(error))))?)
    }

    /// Reads a key file; see [`Self::from_pem`].
    ///
    /// # Errors
    /// Also when the file cannot be read.
    pub fn load(path: &Path, password: &[u8]) -> Result<Self, KeyError> {
        let pem = std::fs::read(path)
            .map(zeroize::Zeroizing::new)
            .map_err(|source| KeyError::Read { path: path.display().to_string(), source: Arc::new(source) })?;
        Self::from_pem(&pem, password)
    }

    /// The key in cosign's encrypted PEM form.
    ///
    /// # Errors
    /// When it cannot be encrypted.
    pub fn to_encrypted_pem(&self, password: &[u8]) -> Result<String, KeyError> {
        let pem = self
            .keys
            .private_key_to_encrypted_pem(password)
            .map_err(|error| KeyError::Private(Some(Arc::new(error))))?;
        // The older label: every version of cosign and skopeo reads it, the newer one not.
        Ok(pem.replace(SIGSTORE_PRIVATE_KEY_PEM_LABEL, COSIGN_PRIVATE_KEY_PEM_LABEL))
    }

    /// Writes the encrypted key to a new file that only its owner can read.
    ///
    /// # Errors
    /// When the file exists already or cannot be written.
    pub fn save(&self, path: &Path, password: &[u8]) -> Result<(), KeyError> {
        let pem = self.to_encrypted_pem(password)?;
        let write = || {
            let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
            file.write_all(pem.as_bytes())?;
            file.sync_all()
        };
        write().map_err(|source| KeyError::Write { path: path.display().to_string(), source: Arc::new(source) })
    }

    /// The public half.
    #[must_use]
    pub const fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs `message`: its SHA-256 with ECDSA, in ASN.1 DER form, or all of it with Ed25519.
    ///
    /// # Errors
    /// When the library refuses.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        self.keys
            .to_sigstore_signer(&self.public.key_type.scheme())
            .and_then(|signer| signer.sign(message))
            .map_err(|error| KeyError::Sign(Arc::new(error)))
    }

    fn from_keys(keys: SigStoreKeyPair) -> Result<Self, KeyError> {
        let key_type = match &keys {
            SigStoreKeyPair::ECDSA(ECDSAKeys::P256(_)) => KeyType::EcdsaP256,
            SigStoreKeyPair::ED25519(_) => KeyType::Ed25519,
            SigStoreKeyPair::ECDSA(_) | SigStoreKeyPair::RSA(_) => return Err(KeyError::Private(None)),
        };
        let der = keys.public_key_to_der().map_err(|error| KeyError::Private(Some(Arc::new(error))))?;
        Ok(Self { public: PublicKey { der, key_type }, keys })
    }
}

fn find(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// A key that can verify. Written as PEM in documents.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey {
    der: Vec<u8>,
    key_type: KeyType,
}

impl PublicKey {
    /// Reads PEM text.
    ///
    /// # Errors
    /// When it is not exactly one ECDSA P-256 or Ed25519 public key.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        if pem.matches("-----BEGIN ").count() != 1 || !pem.trim_start().starts_with("-----BEGIN PUBLIC KEY-----") {
            return Err(KeyError::Public(None));
        }
        match CosignVerificationKey::try_from_pem(pem.as_bytes()) {
            Ok(CosignVerificationKey::ECDSA_P256_SHA256_ASN1(der)) => Ok(Self { der, key_type: KeyType::EcdsaP256 }),
            Ok(CosignVerificationKey::ED25519(der)) => Ok(Self { der, key_type: KeyType::Ed25519 }),
            Ok(_) => Err(KeyError::Public(None)),
            Err(error) => Err(KeyError::Public(Some(Arc::new(error)))),
        }
    }

    /// The key as PEM text.
    #[must_use]
    pub fn to_pem(&self) -> String {
        let mut pem = String::from("-----BEGIN PUBLIC KEY-----\n");
        let text = STANDARD.encode(&self.der);
        for line in text.as_bytes().chunks(64) {
            pem.extend(line.iter().map(|byte| char::from(*byte)));
            pem.push('\n');
        }
        pem.push_str("-----END PUBLIC KEY-----\n");
        pem
    }

    /// Its short name.
    #[must_use]
    pub fn id(&self) -> KeyId {
        KeyId(Digest::of(&self.der))
    }

    /// Which kind of key it is.
    #[must_use]
    pub const fn key_type(&self) -> KeyType {
        self.key_type
    }

    /// The DER form (SubjectPublicKeyInfo).
    pub(crate) fn der(&self) -> &[u8] {
        &self.der
    }

    /// Whether `signature`, as [`SigningKey::sign`] makes it, is one of this key over `message`.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = match self.key_type {
            KeyType::EcdsaP256 => CosignVerificationKey::ECDSA_P256_SHA256_ASN1(self.der.clone()),
            KeyType::Ed25519 => CosignVerificationKey::ED25519(self.der.clone()),
        };
        key.verify_signature(Signature::Raw(signature), message).is_ok()
    }

    /// Whether `signature` is one of this key over the message with this SHA-256. Never for Ed25519,
    /// which signs the message itself.
    #[must_use]
    pub(crate) fn verifies_digest(&self, message: Digest, signature: &[u8]) -> bool {
        let scheme = match self.key_type {
            KeyType::EcdsaP256 => crypto::SigningScheme::EcdsaP256Sha256,
            KeyType::Ed25519 => return false,
        };
        let (key, signature) =
            (types::DerPublicKey::from_bytes(&self.der), types::SignatureBytes::from_bytes(signature));
        crypto::verify_signature_prehashed(&key, message.as_bytes(), &signature, scheme).is_ok()
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.id())
    }
}

impl TryFrom<String> for PublicKey {
    type Error = KeyError;

    fn try_from(pem: String) -> Result<Self, Self::Error> {
        Self::from_pem(&pem)
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> Self {
        key.to_pem()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const TYPES: [KeyType; 2] = [KeyType::EcdsaP256, KeyType::Ed25519];

    #[test]
    fn a_key_survives_its_file_and_only_with_its_password() {
        for key_type in TYPES {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("signing.key");
            let key = SigningKey::generate_as(key_type).unwrap();
            key.save(&path, b"correct").unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            let loaded = SigningKey::load(&path, b"correct").unwrap();
            assert_eq!(loaded.public(), key.public());
            assert_eq!(loaded.public().key_type(), key_type);
            assert!(key.public().verifies(b"message", &loaded.sign(b"message").unwrap()));
            assert!(matches!(SigningKey::load(&path, b"wrong"), Err(KeyError::Private(_))));
            assert!(matches!(key.save(&path, b"again"), Err(KeyError::Write { .. })), "an existing key is overwritten");
            let shown = format!("{key:?} {:?}", key.public());
            assert!(!shown.contains("BEGIN"), "{shown}");
        }
    }

    #[test]
    fn plain_pkcs8_is_read_and_other_types_are_not() {
        let plain = |curve| ECDSAKeys::new(curve).unwrap().as_inner().private_key_to_pem().unwrap();
        SigningKey::from_pem(plain(EllipticCurve::P256).as_bytes(), b"").unwrap();
        let ed25519 = SigStoreKeyPair::ED25519(Ed25519Keys::new().unwrap()).private_key_to_pem().unwrap();
        SigningKey::from_pem(ed25519.as_bytes(), b"").unwrap();
        assert!(matches!(
            SigningKey::from_pem(plain(EllipticCurve::P384).as_bytes(), b""),
            Err(KeyError::Private(None))
        ));
        assert!(matches!(SigningKey::from_pem(b"not a key", b""), Err(KeyError::Private(Some(_)))));
    }

    #[test]
    fn a_public_key_is_exactly_one_key_of_a_known_type() {
        let p384 = ECDSAKeys::new(EllipticCurve::P384).unwrap().as_inner().public_key_to_pem().unwrap();
        for key_type in TYPES {
            let key = SigningKey::generate_as(key_type).unwrap();
            let pem = key.public().to_pem();
            assert_eq!(&PublicKey::from_pem(&pem).unwrap(), key.public());
            let private = key.to_encrypted_pem(b"").unwrap();
            for wrong in ["", "text", &p384, &format!("{pem}{pem}"), &private, &pem[..80]] {
                assert!(PublicKey::from_pem(wrong).is_err(), "{wrong}");
            }
        }
    }

    #[test]
    fn a_changed_message_or_signature_does_not_verify() {
        for key_type in TYPES {
            let key = SigningKey::generate_as(key_type).unwrap();
            let signature = key.sign(b"message").unwrap();
            assert!(key.public().verifies(b"message", &signature));
            assert!(!key.public().verifies(b"messagf", &signature));
            assert!(!key.public().verifies(b"message", &signature[..signature.len() - 1]));
            assert!(!key.public().verifies(b"message", b""));
            assert!(!SigningKey::generate_as(key_type).unwrap().public().verifies(b"message", &signature));
        }
    }

    #[test]
    fn a_signature_over_a_digest_is_one_over_its_message() {
        let key = SigningKey::generate().unwrap();
        let signature = key.sign(b"message").unwrap();
        assert!(key.public().verifies_digest(Digest::of(b"message"), &signature));
        assert!(!key.public().verifies_digest(Digest::of(b"messagf"), &signature));
        let ed25519 = SigningKey::generate_as(KeyType::Ed25519).unwrap();
        let signature = ed25519.sign(b"message").unwrap();
        assert!(!ed25519.public().verifies_digest(Digest::of(b"message"), &signature));
    }
}
