//! Authorities in files: one directory each, named by its fingerprint, and a file that says which one signs.
//!
//! While one replaces another there are two: both count, one signs. Each change is one rename or one removal, so that
//! a plane which reads at any time finds the state before or after it.

use std::{
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::pki_types::pem::PemObject as _;

use crate::{
    Authority, AuthorityError, AuthorityKey, Certificate, Device, DeviceError, Fingerprint, Key, KeyError, Roots,
    RootsError, Serial, Validity, device::DeviceKey,
};

const ROOT: &str = "root.pem";
const KEY: &str = "key.pem";
const DEVICE: &str = "device.json";
const SIGNS: &str = "signs";

/// Where authorities are kept.
#[derive(Clone, Debug)]
pub struct Directory(PathBuf);

/// Where the key of an authority is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// In a file that its owner alone may read.
    File,
    /// On a device that keeps it to itself.
    Device(Device),
}

/// Which authorities there are.
pub struct Standing {
    /// The one that signs.
    pub signs: Authority,
    /// All that count.
    pub roots: Roots,
}

/// Why authorities cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// A file cannot be used.
    #[error("{} cannot be used; check its permissions", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: std::io::Error,
    },
    /// Others could read the key.
    #[error("{} may be read by others than its owner; run `chmod 600` on it, and if others had access, rotate the authority", .0.display())]
    Open(PathBuf),
    /// A key is damaged.
    #[error("the authority's key {} cannot be used; restore it from its backup", path.display())]
    Key {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: KeyError,
    },
    /// A certificate is damaged.
    #[error("the authority's certificate {} cannot be read; restore it from its backup", .0.display())]
    Root(PathBuf),
    /// Roots cannot be used.
    #[error(transparent)]
    Roots(#[from] RootsError),
    /// An authority cannot be used.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// No key could be made.
    #[error(transparent)]
    Generate(#[from] KeyError),
    /// A device made no key.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Where a key is on a device is damaged.
    #[error("{} does not say where the authority's key is; restore it from its backup", .0.display())]
    Place(PathBuf),
    /// There is one already.
    #[error("authority {0} signs already; replace it with a rotation")]
    Exists(Fingerprint),
    /// There is no authority yet, or the one that should sign is missing.
    #[error("there is no authority in {}; a plane makes one at its first start", .0.display())]
    Nobody(PathBuf),
    /// Another one is being brought in already.
    #[error("two authorities count already, {0} and {1}; finish that rotation first")]
    Rotating(Fingerprint, Fingerprint),
    /// Nothing is being replaced.
    #[error("only one authority counts; begin a rotation first")]
    NotRotating,
    /// The new one does not sign yet.
    #[error("authority {0} is to go and still signs; activate the new one first")]
    StillSigns(Fingerprint),
}

impl Directory {
    /// Authorities below this path. Nothing is read yet.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Reads them; makes the first one where there is none.
    ///
    /// # Errors
    /// When files cannot be used, are damaged, or a key is open to others.
    pub fn open_or_create(&self, validity: Validity, serial: Serial) -> Result<Standing, DirectoryError> {
        if !self.0.join(SIGNS).exists() {
            // Planes that share it may start at the same time.
            let _alone = self.alone()?;
            if !self.0.join(SIGNS).exists() {
                let first = self.add(&KeyPlace::File, validity, serial)?;
                self.sign_with(first)?;
            }
        }
        self.open()
    }

    /// Makes the first one, with a key in this place.
    ///
    /// # Errors
    /// When there is one already, the device makes no key, or files cannot be written.
    pub fn create(&self, place: &KeyPlace, validity: Validity, serial: Serial) -> Result<Fingerprint, DirectoryError> {
        let _alone = self.alone()?;
        match self.signs() {
            Ok(signs) => return Err(DirectoryError::Exists(signs)),
            Err(DirectoryError::Nobody(_)) => {}
            Err(error) => return Err(error),
        }
        let first = self.add(place, validity, serial)?;
        self.sign_with(first)?;
        Ok(first)
    }

    /// Keeps all others from making the first one, for as long as the answer is kept.
    fn alone(&self) -> Result<std::fs::File, DirectoryError> {
        let path = self.0.join(".lock");
        let lock = || {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
            let file = std::fs::File::create(&path)?;
            file.lock()?;
            Ok(file)
        };
        lock().map_err(|source| DirectoryError::File { path: path.clone(), source })
    }

    /// Reads them.
    ///
    /// # Errors
    /// When there is none, files cannot be used, are damaged, or a key is open to others.
    pub fn open(&self) -> Result<Standing, DirectoryError> {
        let signs = self.signs()?;
        let mut roots = vec![self.root(signs)?];
        for other in self.all()?.into_iter().filter(|one| *one != signs) {
            roots.push(self.root(other)?);
        }
        let key = self.key(signs)?;
        let signs = Authority::open(roots[0].clone(), key)?;
        Ok(Standing { signs, roots: Roots::new(roots)? })
    }

    /// Makes a second authority, with a key in this place. From now on both count, and the first one goes on signing.
    ///
    /// # Errors
    /// When there are two already, the device makes no key, or files cannot be written.
    pub fn begin_rotation(
        &self,
        place: &KeyPlace,
        validity: Validity,
        serial: Serial,
    ) -> Result<Fingerprint, DirectoryError> {
        self.signs()?;
        if let [first, second, ..] = self.all()?[..] {
            return Err(DirectoryError::Rotating(first, second));
        }
        self.add(place, validity, serial)
    }

    /// Lets the newer authority sign. Both count on.
    ///
    /// # Errors
    /// When there is only one, or files cannot be written.
    pub fn activate(&self) -> Result<Fingerprint, DirectoryError> {
        let signs = self.signs()?;
        let other = self.all()?.into_iter().find(|one| *one != signs).ok_or(DirectoryError::NotRotating)?;
        self.sign_with(other)?;
        Ok(other)
    }

    /// Takes the authority away that does not sign. Certificates that it signed count no longer.
    ///
    /// # Errors
    /// When there is only one, `expected` is not the one that would stay, or files cannot be removed.
    pub fn finish_rotation(&self, expected: Fingerprint) -> Result<Fingerprint, DirectoryError> {
        let signs = self.signs()?;
        if signs != expected {
            return Err(DirectoryError::StillSigns(signs));
        }
        let old = self.all()?.into_iter().find(|one| *one != signs).ok_or(DirectoryError::NotRotating)?;
        let (from, gone) = (self.0.join(old.to_string()), self.0.join(format!(".{old}.gone")));
        std::fs::rename(&from, &gone).map_err(|source| DirectoryError::File { path: from, source })?;
        std::fs::remove_dir_all(&gone).map_err(|source| DirectoryError::File { path: gone, source })?;
        Ok(old)
    }

    /// Which one signs.
    ///
    /// # Errors
    /// When there is none, or the file cannot be read.
    pub fn signs(&self) -> Result<Fingerprint, DirectoryError> {
        let path = self.0.join(SIGNS);
        match std::fs::read_to_string(&path) {
            Ok(text) => text.trim().parse().map_err(|_| DirectoryError::Nobody(self.0.clone())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(DirectoryError::Nobody(self.0.clone())),
            Err(source) => Err(DirectoryError::File { path, source }),
        }
    }

    /// All that count, in the order of their fingerprints.
    fn all(&self) -> Result<Vec<Fingerprint>, DirectoryError> {
        let failed = |source| DirectoryError::File { path: self.0.clone(), source };
        let mut all = Vec::new();
        for entry in std::fs::read_dir(&self.0).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            all.extend(name.to_str().and_then(|name| name.parse::<Fingerprint>().ok()));
        }
        all.sort();
        Ok(all)
    }

    fn root(&self, of: Fingerprint) -> Result<Certificate, DirectoryError> {
        let path = self.0.join(of.to_string()).join(ROOT);
        let text = std::fs::read(&path).map_err(|source| DirectoryError::File { path: path.clone(), source })?;
        let root = Certificate::from_pem_slice(&text).ok().filter(|root| Fingerprint::of(root) == of);
        root.ok_or(DirectoryError::Root(path))
    }

    fn key(&self, of: Fingerprint) -> Result<Arc<dyn AuthorityKey>, DirectoryError> {
        let path = self.0.join(of.to_string()).join(DEVICE);
        match std::fs::read(&path) {
            Ok(text) => {
                let key = serde_json::from_slice(&text).ok().and_then(DeviceKey::at);
                Ok(Arc::new(key.ok_or(DirectoryError::Place(path))?))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Arc::new(self.key_in_file(of)?)),
            Err(source) => Err(DirectoryError::File { path, source }),
        }
    }

    fn key_in_file(&self, of: Fingerprint) -> Result<Key, DirectoryError> {
        let path = self.0.join(of.to_string()).join(KEY);
        let failed = |source| DirectoryError::File { path: path.clone(), source };
        if std::fs::metadata(&path).map_err(failed)?.permissions().mode() & 0o077 != 0 {
            return Err(DirectoryError::Open(path));
        }
        let text = zeroize::Zeroizing::new(std::fs::read_to_string(&path).map_err(failed)?);
        Key::from_pem(&text).map_err(|source| DirectoryError::Key { path: path.clone(), source })
    }

    /// Makes an authority and puts it beside the others.
    fn add(&self, place: &KeyPlace, validity: Validity, serial: Serial) -> Result<Fingerprint, DirectoryError> {
        let (key, name, text): (Arc<dyn AuthorityKey>, _, _) = match place {
            KeyPlace::File => {
                let key = Key::generate()?;
                let text = key.to_pem();
                (Arc::new(key), KEY, text)
            }
            KeyPlace::Device(device) => {
                let key = device.generate(&serial.0)?;
                let text = serde_json::to_string_pretty(key.place()).map(zeroize::Zeroizing::new);
                let text = text.map_err(|_| DirectoryError::Place(self.0.join(DEVICE)))?;
                (Arc::new(key), DEVICE, text)
            }
        };
        let authority = Authority::create(key, validity, serial)?;
        let fingerprint = authority.fingerprint();
        let (new, path) = (self.0.join(format!(".{fingerprint}.new")), self.0.join(fingerprint.to_string()));
        let write = || {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&new)?;
            keep(&new.join(name), text.as_bytes())?;
            keep(&new.join(ROOT), crate::to_pem(authority.root()).as_bytes())?;
            std::fs::File::open(&new)?.sync_all()?;
            std::fs::rename(&new, &path)?;
            std::fs::File::open(&self.0)?.sync_all()
        };
        write().map_err(|source| DirectoryError::File { path: path.clone(), source })?;
        Ok(fingerprint)
    }

    fn sign_with(&self, one: Fingerprint) -> Result<(), DirectoryError> {
        let (new, path) = (self.0.join(".signs.new"), self.0.join(SIGNS));
        let write = || {
            keep(&new, format!("{one}\n").as_bytes())?;
            std::fs::rename(&new, &path)?;
            std::fs::File::open(&self.0)?.sync_all()
        };
        write().map_err(|source| DirectoryError::File { path: path.clone(), source })
    }
}

fn keep(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}
