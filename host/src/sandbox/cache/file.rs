//! Files that only this user made: read whole, written whole.

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use rustix::{
    fs::{FlockOperation, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, flock, futimens},
    io::Errno,
    process::geteuid,
};

use super::entry::Flaw;
use crate::mutation::{Protection, off};

const TEMPORARY: &str = ".incoming-";

/// What was found at a path.
pub(super) enum Found {
    Nothing,
    Flawed(Flaw),
    Content(File, Vec<u8>),
}

/// Reads a plain file of at most `limit` bytes that nobody else can read or write. It is in memory
/// afterwards: what happens to the file then changes nothing.
pub(super) fn read(path: &Path, limit: u64, from_anybody: bool) -> io::Result<Found> {
    let anything = off(Protection::CodeFilesArePlain);
    // Without NONBLOCK, opening a pipe would wait for whoever made it.
    let flags = if anything { OFlags::CLOEXEC } else { OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK };
    let file = match OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) if is(&error, &[Errno::LOOP, Errno::NXIO]) => return Ok(Found::Flawed(Flaw::NotPlain)),
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() && !anything {
        return Ok(Found::Flawed(Flaw::NotPlain));
    }
    if (metadata.uid() != geteuid().as_raw() || metadata.mode() & 0o077 != 0) && !from_anybody {
        return Ok(Found::Flawed(Flaw::NotPrivate));
    }
    if metadata.len() > limit {
        return Ok(Found::Flawed(Flaw::TooLarge));
    }
    let mut content = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    (&file).take(limit + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        return Ok(Found::Flawed(Flaw::TooLarge));
    }
    Ok(Found::Content(file, content))
}

fn is(error: &io::Error, numbers: &[Errno]) -> bool {
    numbers.iter().any(|number| error.raw_os_error() == Some(number.raw_os_error()))
}

/// Marks a file as used now. Its modification time is when it was last used: its content never changes.
pub(super) fn touch(file: &File) -> io::Result<()> {
    let kept = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    Ok(futimens(file, &Timestamps { last_access: kept, last_modification: now })?)
}

/// A file in `directory` that only this user can read, and that goes away unless it is given a name.
pub(super) fn temporary(directory: &Path) -> io::Result<tempfile::NamedTempFile> {
    loop {
        let file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(directory)?;
        // Who opens the directory next can tell a writer from what a crash left.
        flock(file.as_file(), FlockOperation::LockExclusive)?;
        // Somebody who did so before the lock took it away.
        if file.as_file().metadata()?.nlink() > 0 {
            return Ok(file);
        }
    }
}

/// Whether a file is one that is being written, by this process or another.
pub(super) fn is_temporary(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(TEMPORARY.as_bytes())
}

/// Removes temporary files that nobody writes any more.
pub(super) fn remove_leftovers(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if !is_temporary(&entry.file_name()) {
            continue;
        }
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(entry.path());
        // The lock is held until the file is gone: a writer that has just made it waits, and sees that it is.
        let (abandoned, _lock) = match opened {
            Ok(file) => (flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok(), Some(file)),
            Err(error) => (error.kind() != io::ErrorKind::NotFound, None),
        };
        if abandoned {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes whatever is at a path.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
