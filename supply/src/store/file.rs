//! Files as the store reads and writes them: never through a link, never half.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};
use tempfile::NamedTempFile;

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
        // The lock is held until the file is gone: its writer, if there is one after all, waits and sees that.
        let (abandoned, _lock) = match open_plain(&path) {
            Ok(file) => (flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok(), Some(file)),
            Err(error) => (error.kind() != io::ErrorKind::NotFound, None),
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

/// What was found at a path.
enum Found {
    /// Nothing, or more than may be read here.
    Nothing,
    /// What the store never writes, and why.
    Foreign(&'static str),
    Content(Vec<u8>),
}

/// The content of a plain file of at most `limit` bytes; what is no plain file is discarded.
pub(crate) fn read_file(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, StoreError> {
    match find(path, limit)? {
        Found::Content(content) => Ok(Some(content)),
        Found::Nothing => Ok(None),
        Found::Foreign(reason) => discard(path, reason).map(|()| None),
    }
}

/// The same, and nothing is changed.
pub(super) fn peek_file(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(match find(path, limit)? {
        Found::Content(content) => Some(content),
        Found::Nothing | Found::Foreign(_) => None,
    })
}

fn find(path: &Path, limit: u64) -> Result<Found, StoreError> {
    let file = match open_plain(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            return Ok(Found::Foreign("it is a symbolic link"));
        }
        Err(error) => return Err(StoreError::at(path)(error)),
    };
    let metadata = file.metadata().map_err(StoreError::at(path))?;
    if !metadata.is_file() {
        return Ok(Found::Foreign("it is not a plain file"));
    }
    // Too large for this use. It is not read, and what replaces it comes from a checked source.
    if metadata.len() > limit {
        return Ok(Found::Nothing);
    }
    let mut content = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    file.take(limit + 1).read_to_end(&mut content).map_err(StoreError::at(path))?;
    Ok(Found::Content(content))
}

/// A new file under a temporary name that nobody takes for a leftover, and that goes away unless it is
/// given another name.
fn temporary(directory: &Path) -> io::Result<NamedTempFile> {
    loop {
        let file = make(directory)?;
        if is_claimed(&file)? {
            return Ok(file);
        }
    }
}

fn make(directory: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(directory)
}

/// Locks a file that was just made. False when whoever opened the store between the making and the lock
/// has taken it for a leftover and removed it.
fn is_claimed(file: &NamedTempFile) -> io::Result<bool> {
    // A sweep holds the lock for as long as it takes to remove the file, so this waits for it.
    flock(file.as_file(), FlockOperation::LockExclusive)?;
    Ok(file.as_file().metadata()?.nlink() > 0)
}

/// Puts a file in place whole and durably, or not at all.
pub(crate) fn write_file(directory: &Path, name: &str, content: &[u8]) -> Result<(), StoreError> {
    let failed = StoreError::at(directory);
    let mut file = temporary(directory).map_err(&failed)?;
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

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_file_that_was_removed_before_it_was_locked_is_not_written_to() {
        let directory = tempfile::tempdir().unwrap();
        let swept = make(directory.path()).unwrap();
        remove_leftovers(directory.path()).unwrap();
        assert!(!swept.path().exists() && !is_claimed(&swept).unwrap());
        let kept = temporary(directory.path()).unwrap();
        remove_leftovers(directory.path()).unwrap();
        assert!(kept.path().exists(), "a file that is being written was removed");
    }

    #[test]
    fn writers_and_those_who_clean_up_beside_them_do_not_get_in_each_others_way() {
        let directory = tempfile::tempdir().unwrap();
        let (place, content) = (directory.path(), vec![7; 4096]);
        thread::scope(|scope| {
            let writers: Vec<_> = (0..3)
                .map(|writer| {
                    let (name, content) = (format!("{writer}"), &content);
                    scope.spawn(move || (0..60).try_for_each(|_| write_file(place, &name, content)))
                })
                .collect();
            while writers.iter().any(|writer| !writer.is_finished()) {
                remove_leftovers(place).unwrap();
            }
            writers.into_iter().for_each(|writer| writer.join().unwrap().unwrap());
        });
        assert_eq!(fs::read_dir(place).unwrap().count(), 3, "something was left behind");
    }
}
