//! Secrets as they lie in documents and databases: encrypted with a key that lies elsewhere (AES-256-GCM, a random nonce
//! each), for one purpose.

use std::{fmt, fs, io, os::unix::fs::PermissionsExt as _, path::Path, path::PathBuf};

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;
use zeroize::Zeroizing;

/// How a sealed secret begins: what it is, and how it was made.
const PREFIX: &str = "fettle-sealed-1.";

/// Bytes of a key.
const KEY: usize = 32;

/// A secret that only the holder of the key can read.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Sealed(String);

/// What a sealed secret belongs to. Sealed for one purpose, it does not open for another: whoever can write where it lies
/// cannot put it to another use.
#[derive(Clone, Copy, Debug)]
pub enum Purpose<'a> {
    /// A document that an administrator wrote.
    Document,
    /// The webhook of this id.
    Webhook(&'a str),
}

impl Purpose<'_> {
    /// What is authenticated beside the secret.
    fn bound(self) -> Aad<Vec<u8>> {
        let rest = match self {
            Self::Document => String::new(),
            Self::Webhook(id) => format!("webhook/{id}"),
        };
        Aad::from([PREFIX.as_bytes(), rest.as_bytes()].concat())
    }
}

/// What secrets are sealed with.
pub struct SealingKey(RandomizedNonceKey);

/// Why a secret cannot be sealed or read.
#[derive(Debug, thiserror::Error)]
pub enum SealedError {
    /// The file of the key cannot be read or made.
    #[error("the key {} cannot be used", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// Others may read the file of the key.
    #[error("the key {} can be read by others; run `chmod 600` on it, and think of its secrets as known", .0.display())]
    Exposed(PathBuf),
    /// The file holds something else.
    #[error("{} holds no key; make one with `fettle-plane secret generate-key`", .0.display())]
    NoKey(PathBuf),
    /// It is no sealed secret.
    #[error("it is not sealed; a secret in a document is what `fettle-plane secret seal` printed")]
    NotSealed,
    /// Another key sealed it, or for another purpose, or it was changed.
    #[error("it cannot be opened: it was sealed with another key or for something else, or was changed")]
    NotOpened,
    /// The library refused.
    #[error("the secret cannot be sealed")]
    NotMade,
}

impl SealingKey {
    /// A new key in a new file, which this user alone may read.
    ///
    /// # Errors
    /// When the file is there, or cannot be written.
    pub fn generate(path: &Path) -> Result<(), SealedError> {
        use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _};
        let mut key = Zeroizing::new([0; KEY]);
        aws_lc_rs::rand::fill(&mut *key).map_err(|_| SealedError::NotMade)?;
        let text = Zeroizing::new(URL_SAFE_NO_PAD.encode(*key));
        let write = || -> io::Result<()> {
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
            writeln!(file, "{}", *text)?;
            file.sync_all()
        };
        write().map_err(|source| SealedError::File { path: path.to_owned(), source })
    }

    /// Reads the key of a file.
    ///
    /// # Errors
    /// When it cannot be read, others can read it too, or it holds no key.
    pub fn load(path: &Path) -> Result<Self, SealedError> {
        let failed = |source| SealedError::File { path: path.to_owned(), source };
        let mode = fs::metadata(path).map_err(failed)?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(SealedError::Exposed(path.to_owned()));
        }
        let text = Zeroizing::new(fs::read_to_string(path).map_err(failed)?);
        let no_key = || SealedError::NoKey(path.to_owned());
        let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(text.trim()).map_err(|_| no_key())?);
        if bytes.len() != KEY {
            return Err(no_key());
        }
        RandomizedNonceKey::new(&AES_256_GCM, &bytes).map(Self).map_err(|_| no_key())
    }

    /// Seals a secret.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn seal(&self, purpose: Purpose<'_>, secret: &str) -> Result<Sealed, SealedError> {
        let mut bytes = Zeroizing::new(secret.as_bytes().to_vec());
        let sealed = self.0.seal_in_place_append_tag(purpose.bound(), &mut *bytes);
        let nonce = sealed.map_err(|_| SealedError::NotMade)?;
        let text = URL_SAFE_NO_PAD.encode([nonce.as_ref().as_slice(), bytes.as_slice()].concat());
        Ok(Sealed(format!("{PREFIX}{text}")))
    }

    /// Reads a secret.
    ///
    /// # Errors
    /// When it is none, or was sealed with another key or for another purpose.
    pub fn open(&self, purpose: Purpose<'_>, sealed: &Sealed) -> Result<Zeroizing<String>, SealedError> {
        let text = sealed.0.strip_prefix(PREFIX).ok_or(SealedError::NotSealed)?;
        let mut bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(text).map_err(|_| SealedError::NotSealed)?);
        if bytes.len() < NONCE_LEN {
            return Err(SealedError::NotSealed);
        }
        let (nonce, secret) = bytes.split_at_mut(NONCE_LEN);
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SealedError::NotOpened)?;
        let secret = self.0.open_in_place(nonce, purpose.bound(), secret).map_err(|_| SealedError::NotOpened)?;
        let text = std::str::from_utf8(secret).map_err(|_| SealedError::NotOpened)?;
        Ok(Zeroizing::new(text.to_owned()))
    }
}

impl Sealed {
    /// A text that says of itself that it is sealed; whether it opens is another question.
    #[must_use]
    pub fn recognize(text: &str) -> Option<Self> {
        text.starts_with(PREFIX).then(|| Self(text.to_owned()))
    }
}

/// As it is written into a document.
impl fmt::Display for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(directory: &Path, name: &str) -> SealingKey {
        let path = directory.join(name);
        SealingKey::generate(&path).unwrap();
        SealingKey::load(&path).unwrap()
    }

    #[test]
    fn only_the_key_opens_what_it_sealed() {
        let directory = tempfile::tempdir().unwrap();
        let (one, other) = (key(directory.path(), "one"), key(directory.path(), "other"));
        let [sealed, again] = [0; 2].map(|_| one.seal(Purpose::Document, "hunter2").unwrap());
        assert!(!sealed.to_string().contains("hunter2") && sealed.to_string() != again.to_string());
        assert_eq!(*one.open(Purpose::Document, &sealed).unwrap(), "hunter2");
        assert!(matches!(other.open(Purpose::Document, &sealed), Err(SealedError::NotOpened)));
        let mut changed = sealed.to_string().into_bytes();
        changed[PREFIX.len() + 20] ^= 1;
        let changed = Sealed(String::from_utf8(changed).unwrap());
        assert!(one.open(Purpose::Document, &changed).is_err());
        for wrong in ["hunter2", "fettle-sealed-1.", "fettle-sealed-1.%%%"] {
            let opened = one.open(Purpose::Document, &Sealed(wrong.to_owned()));
            assert!(matches!(opened, Err(SealedError::NotSealed)), "{wrong}");
        }
    }

    #[test]
    fn what_is_sealed_for_one_purpose_opens_for_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let key = key(directory.path(), "key");
        let purposes = [Purpose::Document, Purpose::Webhook("a"), Purpose::Webhook("b")];
        for (place, purpose) in purposes.into_iter().enumerate() {
            let sealed = key.seal(purpose, "hunter2").unwrap();
            let opens = purposes.map(|other| key.open(other, &sealed).is_ok());
            assert_eq!(opens, [0, 1, 2].map(|other| other == place), "{purpose:?}");
        }
    }

    #[test]
    fn a_sealed_text_is_told_from_another() {
        let directory = tempfile::tempdir().unwrap();
        let sealed = key(directory.path(), "key").seal(Purpose::Document, "hunter2").unwrap().to_string();
        assert_eq!(Sealed::recognize(&sealed).unwrap().to_string(), sealed);
        assert!(Sealed::recognize("whsec_aGk=").is_none());
    }

    #[test]
    fn a_key_is_made_once_and_is_nobody_elses() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        SealingKey::generate(&path).unwrap();
        assert!(SealingKey::generate(&path).is_err(), "a key that is there stays");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(SealingKey::load(&path), Err(SealedError::Exposed(_))));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "not a key").unwrap();
        assert!(matches!(SealingKey::load(&path), Err(SealedError::NoKey(_))));
        assert!(matches!(SealingKey::load(Path::new("/nowhere")), Err(SealedError::File { .. })));
    }
}
