//! Hashing files at native speed, and remembering the digest while the file stays as it is.

use std::{fs::File, io::Read as _, os::fd::OwnedFd, sync::Arc};

use fettle_model::digest::Digest;
use quick_cache::sync::Cache;
use rustix::fs::{FileType, Stat};
use sha2::{Digest as _, Sha256};

use super::{Error, error_of};

/// Files whose digest is remembered.
const REMEMBERED: usize = 4096;

/// Digests by the identity of a file. An entry holds only for the same inode with the same size and
/// change time; the kernel sets the change time and no caller can set it back.
#[derive(Clone)]
pub struct DigestCache(Arc<Cache<Identity, Digest>>);

#[derive(Clone, PartialEq, Eq, Hash)]
struct Identity {
    device: u64,
    inode: u64,
    size: i64,
    changed: (i64, u64),
    modified: (i64, u64),
}

impl Identity {
    fn of(stat: &Stat) -> Self {
        #[expect(clippy::useless_conversion, reason = "the types differ between architectures")]
        Self {
            device: stat.st_dev.into(),
            inode: stat.st_ino.into(),
            size: stat.st_size.into(),
            changed: (stat.st_ctime.into(), stat.st_ctime_nsec.into()),
            modified: (stat.st_mtime.into(), stat.st_mtime_nsec.into()),
        }
    }
}

impl Default for DigestCache {
    fn default() -> Self {
        Self(Arc::new(Cache::new(REMEMBERED)))
    }
}

impl DigestCache {
    /// Remembers what a transfer has just verified.
    pub(crate) fn remember(&self, file: &File, digest: Digest) {
        if let Ok(stat) = rustix::fs::fstat(file) {
            self.0.insert(Identity::of(&stat), digest);
        }
    }

    /// The digest of an open file.
    pub(crate) fn of(&self, file: OwnedFd) -> Result<Digest, Error> {
        let stat = rustix::fs::fstat(&file).map_err(error_of)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Error::InvalidPath("is not a regular file".to_owned()));
        }
        let identity = Identity::of(&stat);
        if let Some(digest) = self.0.get(&identity) {
            return Ok(digest);
        }
        let digest = hash(file)?;
        self.0.insert(identity, digest);
        Ok(digest)
    }
}

fn hash(file: OwnedFd) -> Result<Digest, Error> {
    let mut file = File::from(file);
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count =
            file.read(&mut buffer).map_err(|error| Error::Failed(format!("the file could not be read: {error}")))?;
        match buffer.get(..count) {
            Some(chunk) if count > 0 => hasher.update(chunk),
            _ => return Ok(Digest::from_bytes(hasher.finalize().into())),
        }
    }
}
