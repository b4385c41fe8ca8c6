//! Files as the store reads and writes them: never through a link, never half.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};

use super::StoreError;
use crate::mutation::{Protection, off};

const TEMPORARY: &str = ".incoming-";

/// Makes a directory that only this user can enter.
///
/// # Errors
/// When it cannot be made, or something else is there.
pub(crate) fn make_directory(path: &Path) -> Result<(), StoreError> {
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
pub(super) fn remove_leftovers(directory: &Path) -> Result<(), StoreError> {
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
pub(crate) fn read_file(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, StoreError> {
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

/// Puts a file in place whole and durably, or not at all.
pub(crate) fn write_file(directory: &Path, name: &str, content: &[u8]) -> Result<(), StoreError> {
    let failed = StoreError::at(directory);
    let mut file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(directory).map_err(&failed)?;
    flock(file.as_file(), FlockOperation::NonBlockingLockExclusive).map_err(|error| failed(error.into()))?;
    file.write_all(content).map_err(&failed)?;
    file.as_file().sync_all().map_err(&failed)?;
    file.persist(directory.join(name)).map_err(|error| failed(error.error))?;
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(&failed)
}

pub(super) fn discard(path: &Path, reason: &str) -> Result<(), StoreError> {
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
