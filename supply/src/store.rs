//! Verified content on this machine's disk: `blobs/sha256/<hex>` and `signatures/sha256/<hex>.json`.
//!
//! A blob is hashed whenever it is read, and its name is its hash, so a changed one cannot be used: it
//! is deleted and fetched again. Signatures are verified whenever they are read.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use fettle_model::digest::Digest;
use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};

use crate::{
    mutation::{Protection, off},
    signature::Evidence,
};

const TEMPORARY: &str = ".incoming-";
const SIGNATURES_LIMIT: u64 = 8 << 20;

/// Why content cannot be kept or read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk is full, or the quota used up.
    #[error("the disk that holds {} is full; free some space there, or move the directory", directory.display())]
    NoSpace {
        /// The directory.
        directory: PathBuf,
    },
    /// A part of the store is not what it was made as.
    #[error("{} is not a plain directory; remove it, so that the store can make its own", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// The file system failed.
    #[error("cannot use {}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The error below.
        #[source]
        source: Arc<io::Error>,
    },
    /// The work was abandoned because the program ends.
    #[error("the program is shutting down")]
    Stopped,
}

impl StoreError {
    fn at(path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_owned();
        move |error| {
            if is_full(&error) {
                let directory = if path.is_dir() { path.clone() } else { path.parent().unwrap_or(&path).to_owned() };
                Self::NoSpace { directory }
            } else {
                Self::Io { path: path.clone(), source: Arc::new(error) }
            }
        }
    }
}

/// Whether an error means that the disk is full or the quota used up.
pub(crate) fn is_full(error: &io::Error) -> bool {
    [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded].contains(&error.kind())
}

/// The store. Cheap to clone; several processes may share one directory.
#[derive(Clone, Debug)]
pub struct ContentStore {
    blobs: Arc<Path>,
    signatures: Arc<Path>,
}

impl ContentStore {
    /// Opens the store in `directory`, makes what is missing, and removes what a crash left half
    /// written. Only this user can enter it afterwards.
    ///
    /// # Errors
    /// When the directory cannot be made, or one of its parts is something else.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let made = |path: PathBuf| -> Result<PathBuf, StoreError> {
            make_directory(&path)?;
            Ok(path)
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(StoreError::at(directory))?;
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).map_err(StoreError::at(directory))?;
        let blobs = made(made(directory.join("blobs"))?.join("sha256"))?;
        let signatures = made(made(directory.join("signatures"))?.join("sha256"))?;
        remove_leftovers(&blobs)?;
        remove_leftovers(&signatures)?;
        Ok(Self { blobs: blobs.into(), signatures: signatures.into() })
    }

    /// The blob's bytes, if it is there, whole and unchanged. A changed one is deleted and reported
    /// in the log.
    ///
    /// # Errors
    /// When the disk fails.
    pub async fn read(&self, digest: Digest, limit: u64) -> Result<Option<Bytes>, StoreError> {
        let store = self.clone();
        blocking(move || store.read_now(&digest, limit)).await
    }

    /// Keeps bytes under their digest, durably.
    ///
    /// # Errors
    /// When the disk fails or is full.
    pub async fn write(&self, content: Bytes) -> Result<Digest, StoreError> {
        let blobs = Arc::clone(&self.blobs);
        blocking(move || {
            let digest = Digest::of(&content);
            write_file(&blobs, &digest.hex(), &content)?;
            Ok(digest)
        })
        .await
    }

    /// The signatures kept for an artifact; none when there are none or they cannot be read.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) async fn signatures(&self, artifact: Digest) -> Result<Vec<Evidence>, StoreError> {
        let path = self.signatures.join(format!("{}.json", artifact.hex()));
        blocking(move || {
            let Some(content) = read_file(&path, SIGNATURES_LIMIT)? else { return Ok(Vec::new()) };
            match serde_json::from_slice(&content) {
                Ok(signatures) => Ok(signatures),
                Err(error) => {
                    discard(&path, &format!("it cannot be read: {error}"))?;
                    Ok(Vec::new())
                }
            }
        })
        .await
    }

    /// Keeps the signatures of an artifact, in place of those kept before.
    ///
    /// # Errors
    /// When the disk fails or is full.
    pub(crate) async fn write_signatures(&self, artifact: Digest, signatures: &[Evidence]) -> Result<(), StoreError> {
        let directory = Arc::clone(&self.signatures);
        let signatures = signatures.to_vec();
        blocking(move || {
            let name = format!("{}.json", artifact.hex());
            let content = serde_json::to_vec(&signatures).map_err(|error| StoreError::at(&directory)(error.into()))?;
            write_file(&directory, &name, &content)
        })
        .await
    }

    fn read_now(&self, digest: &Digest, limit: u64) -> Result<Option<Bytes>, StoreError> {
        let path = self.blobs.join(digest.hex());
        let Some(content) = read_file(&path, limit)? else { return Ok(None) };
        let actual = Digest::of(&content);
        if actual == *digest || off(Protection::StoreIsHashed) {
            return Ok(Some(content.into()));
        }
        discard(&path, &format!("its bytes have the digest {actual}"))?;
        Ok(None)
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| StoreError::Stopped)?
}

fn make_directory(path: &Path) -> Result<(), StoreError> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(StoreError::at(path)(error)),
        Ok(()) | Err(_) => {}
    }
    // A link here would let content of another place pass as the store's.
    if !fs::symlink_metadata(path).map_err(StoreError::at(path))?.is_dir() {
        return Err(StoreError::NotADirectory { path: path.to_owned() });
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(StoreError::at(path))
}

/// Removes temporary files that nobody writes any more: a writer holds a lock on its own.
fn remove_leftovers(directory: &Path) -> Result<(), StoreError> {
    for entry in fs::read_dir(directory).map_err(StoreError::at(directory))? {
        let entry = entry.map_err(StoreError::at(directory))?;
        if !entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
            continue;
        }
        let path = entry.path();
        let abandoned = match open_plain(&path) {
            Ok(file) => flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok(),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        if abandoned {
            tracing::info!(path = %path.display(), "removing what a crash left half written");
            remove(&path)?;
        }
    }
    Ok(())
}

fn open_plain(path: &Path) -> io::Result<File> {
    let follow = if off(Protection::StoreFollowsNoLink) { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = follow | OFlags::NONBLOCK | OFlags::CLOEXEC;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// The content of a plain file of at most `limit` bytes; what is no plain file is discarded.
fn read_file(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, StoreError> {
    let file = match open_plain(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            discard(path, "it is a symbolic link")?;
            return Ok(None);
        }
        Err(error) => return Err(StoreError::at(path)(error)),
    };
    let metadata = file.metadata().map_err(StoreError::at(path))?;
    if !metadata.is_file() {
        discard(path, "it is not a plain file")?;
        return Ok(None);
    }
    // Too large for this use. It is not read, and what replaces it comes from a checked source.
    if metadata.len() > limit {
        return Ok(None);
    }
    let mut content = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    file.take(limit + 1).read_to_end(&mut content).map_err(StoreError::at(path))?;
    Ok(Some(content))
}

fn write_file(directory: &Path, name: &str, content: &[u8]) -> Result<(), StoreError> {
    let failed = StoreError::at(directory);
    let mut file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(directory).map_err(&failed)?;
    flock(file.as_file(), FlockOperation::NonBlockingLockExclusive).map_err(|error| failed(error.into()))?;
    file.write_all(content).map_err(&failed)?;
    file.as_file().sync_all().map_err(&failed)?;
    file.persist(directory.join(name)).map_err(|error| failed(error.error))?;
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(&failed)
}

fn discard(path: &Path, reason: &str) -> Result<(), StoreError> {
    tracing::warn!(path = %path.display(), reason, "the content store was changed from outside; removing the entry");
    remove(path)
}

fn remove(path: &Path) -> Result<(), StoreError> {
    let removed = if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::at(path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}
