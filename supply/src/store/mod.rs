//! Verified content on this machine's disk: `blobs/sha256/<hex>`, `signatures/sha256/<hex>.json`, and
//! `versions.json` with the newest versions that were accepted.
//!
//! A blob is hashed whenever it is read, and its name is its hash, so a changed one cannot be used: it
//! is deleted and fetched again. The bytes that were hashed are the bytes that are returned: a file is
//! read once, into memory, and never looked at again. Signatures are verified whenever they are read.

mod file;
mod versions;

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use fettle_model::digest::Digest;

use self::file::{discard, peek_file, remove_leftovers};
pub(crate) use self::file::{make_directory, read_file, write_file};
use crate::{
    kind::ArtifactKind,
    mutation::{Protection, off},
    signature::Evidence,
    trust::{Seen, Version},
};

const SIGNATURES_LIMIT: u64 = 8 << 20;
/// Where blobs are, below the store's directory.
const BLOBS: &str = "blobs/sha256";

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
    /// What was seen before cannot be known any more.
    #[error(
        "{} cannot be read ({problem}), so it is not known which versions are too old; restore it, or remove it to \
         begin anew", path.display()
    )]
    Versions {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
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
    directory: Arc<Path>,
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
        made(directory.join("blobs"))?;
        let blobs = made(directory.join(BLOBS))?;
        let signatures = made(made(directory.join("signatures"))?.join("sha256"))?;
        remove_leftovers(&blobs)?;
        remove_leftovers(&signatures)?;
        Ok(Self { directory: directory.into(), blobs: blobs.into(), signatures: signatures.into() })
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

    /// The blob's bytes out of a store that another process keeps, if it is there, whole and unchanged.
    /// Nothing is made, removed or changed there.
    ///
    /// # Errors
    /// When the disk fails, or the store may not be read.
    pub async fn peek(directory: &Path, digest: Digest, limit: u64) -> Result<Option<Bytes>, StoreError> {
        let path = directory.join(BLOBS).join(digest.hex());
        blocking(move || {
            let content = peek_file(&path, limit)?;
            Ok(content.filter(|content| Digest::of(content) == digest).map(Bytes::from))
        })
        .await
    }

    /// The blobs that are there, the newest first, at most so many. One that is listed may be gone when it is read.
    ///
    /// # Errors
    /// When the disk fails.
    pub async fn newest(&self, most: usize) -> Result<Vec<Digest>, StoreError> {
        let blobs = Arc::clone(&self.blobs);
        blocking(move || {
            let mut found = names_by_age(&blobs).map_err(StoreError::at(&blobs))?;
            found.sort_unstable_by(|one, other| other.cmp(one));
            let digests = found.into_iter().filter_map(|(_, name)| format!("sha256:{name}").parse().ok());
            Ok(digests.take(most).collect())
        })
        .await
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

    /// The newest versions of a kind that were accepted here.
    ///
    /// # Errors
    /// When the disk fails, or what it holds cannot be read.
    pub(crate) async fn seen(&self, kind: ArtifactKind) -> Result<Seen, StoreError> {
        let directory = Arc::clone(&self.directory);
        blocking(move || versions::seen(&directory, kind)).await
    }

    /// Remembers versions that were accepted. Returns false, and remembers nothing, when a newer one of
    /// the same name was accepted meanwhile.
    ///
    /// # Errors
    /// When the disk fails or is full, or what it holds cannot be read.
    pub(crate) async fn accept(
        &self,
        kind: ArtifactKind,
        versions: Vec<(String, Version)>,
    ) -> Result<bool, StoreError> {
        let directory = Arc::clone(&self.directory);
        blocking(move || versions::accept(&directory, kind, versions)).await
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

/// The names in a directory, with when each was written.
fn names_by_age(directory: &Path) -> io::Result<Vec<(std::time::SystemTime, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.metadata().and_then(|metadata| metadata.modified()) {
            Ok(written) => found.push((written, entry.file_name().to_string_lossy().into_owned())),
            // It was removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| StoreError::Stopped)?
}
