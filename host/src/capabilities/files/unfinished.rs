//! Files that are not complete yet: their names, and who may touch them.
//!
//! Whoever works on one holds its lock, so that nobody else finishes or removes it meanwhile. A lock ends
//! with its process; what it leaves is nobody's and may be taken over or removed.

use std::os::fd::OwnedFd;

use fettle_model::digest::Digest;
use rustix::{
    fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, openat, openat2, statat, unlinkat},
    io::Errno,
};

use super::{Error, NodePath, Root, error_of, path::RESOLVE};

/// What a transfer has fetched so far; a later attempt goes on with it.
pub(crate) const PARTIAL: &str = "fettle-partial";
/// What a write has written so far; of no use to anybody else.
pub(crate) const NEW: &str = "fettle-new";

/// Depth below a path that is looked at.
const DEPTH: usize = 16;

/// The name a file has until it is complete. One per destination, so that the next attempt finds it.
pub(crate) fn temporary_name(name: &str, kind: &str) -> String {
    let shortened: String = name.chars().take(60).collect();
    let digest = Digest::of(name.as_bytes()).hex();
    format!(".{shortened}.{}.{kind}", digest.get(..12).unwrap_or_default())
}

/// What became of an attempt to work on an unfinished file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It is ours until the descriptor is closed.
    Held,
    /// Somebody else works on it.
    Busy,
    /// Somebody finished or removed it before it was ours.
    Gone,
}

/// Locks an open unfinished file, without waiting.
pub(crate) fn claim(parent: &OwnedFd, name: &str, file: &OwnedFd) -> Result<Claim, Errno> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(Claim::Busy),
        Err(errno) => return Err(errno),
    }
    let held = fstat(file)?;
    match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(named) if (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino) => Ok(Claim::Held),
        Ok(_) | Err(Errno::NOENT) => Ok(Claim::Gone),
        Err(errno) => Err(errno),
    }
}

/// Removes a leftover, unless somebody works on it.
pub(super) fn remove(parent: &OwnedFd, name: &str) -> Result<Claim, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let claimed = match openat(parent, name, flags, Mode::empty()) {
        Ok(file) => (claim(parent, name, &file)?, Some(file)),
        Err(Errno::NOENT) => return Ok(Claim::Gone),
        // A link, or a file of somebody else: nothing that a host works on.
        Err(_) => (Claim::Held, None),
    };
    if claimed.0 == Claim::Held {
        unlinkat(parent, name, AtFlags::empty())?;
    }
    Ok(claimed.0)
}

/// Removes what interrupted work left at and below a path. Follows no link.
pub(super) fn sweep(root: &Root, path: &NodePath) -> Result<(), Error> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat2(root.descriptor(), path.relative(), flags, Mode::empty(), RESOLVE).map_err(error_of)?;
    sweep_below(&directory, DEPTH);
    Ok(())
}

fn sweep_below(directory: &OwnedFd, depth: usize) {
    let Ok(entries) = Dir::read_from(directory) else { return };
    for entry in entries.filter_map(Result::ok) {
        let Ok(name) = entry.file_name().to_str() else { continue };
        let is_unfinished =
            [PARTIAL, NEW].iter().any(|kind| name.strip_suffix(kind).is_some_and(|rest| rest.ends_with('.')));
        match entry.file_type() {
            FileType::Directory if depth > 0 && name != "." && name != ".." => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                if let Ok(below) = openat2(directory, name, flags, Mode::empty(), RESOLVE) {
                    sweep_below(&below, depth - 1);
                }
            }
            FileType::RegularFile if is_unfinished => {
                let _ = remove(directory, name);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capabilities::files::write::{Attributes, replace};

    fn root(directory: &std::path::Path) -> Root {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Root::of(rustix::fs::open(directory, flags, Mode::empty()).unwrap())
    }

    fn path(text: &str) -> NodePath {
        NodePath::parse(text).unwrap()
    }

    fn names(directory: &std::path::Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_sweep_removes_what_nobody_works_on_and_nothing_else() {
        let (directory, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |name: &str| directory.path().join(name);
        std::fs::create_dir(at("below")).unwrap();
        let (left, held) = (temporary_name("left", PARTIAL), temporary_name("held", PARTIAL));
        for name in [&left, &held, &format!("below/{}", temporary_name("a", NEW)), "file", "my.fettle-partial.txt"] {
            std::fs::write(at(name), "x").unwrap();
        }
        std::fs::write(outside.path().join(&left), "x").unwrap();
        std::os::unix::fs::symlink(outside.path(), at("link")).unwrap();
        let worked_on = std::fs::File::open(at(&held)).unwrap();
        flock(&worked_on, FlockOperation::LockExclusive).unwrap();
        sweep(&root(directory.path()), &path("data")).unwrap();
        assert_eq!(names(directory.path()), [held.as_str(), "below", "file", "link", "my.fettle-partial.txt"]);
        assert!(names(&at("below")).is_empty());
        assert_eq!(names(outside.path()), [left.as_str()], "a link was followed");
        assert!(sweep(&root(directory.path()), &path("data/link")).is_err(), "a link was followed");
        drop(worked_on);
        sweep(&root(directory.path()), &path("data")).unwrap();
        assert!(!names(directory.path()).contains(&held));
    }

    #[test]
    fn writers_of_one_file_and_sweeps_beside_them_leave_one_whole_file() {
        let directory = tempfile::tempdir().unwrap();
        let attributes = Attributes { mode: 0o644, user: None, group: None };
        let contents: Vec<Vec<u8>> = (0..4_u8).map(|writer| vec![b'a' + writer; 10_000]).collect();
        std::thread::scope(|scope| {
            for content in &contents {
                let (root, attributes) = (root(directory.path()), &attributes);
                scope.spawn(move || {
                    for _ in 0..100 {
                        replace(&root, &path("data/deep/file"), content, attributes).unwrap();
                    }
                });
            }
            let root = root(directory.path());
            scope.spawn(move || (0..500).for_each(|_| sweep(&root, &path("data")).unwrap()));
        });
        let found = std::fs::read(directory.path().join("deep/file")).unwrap();
        assert!(contents.contains(&found));
        assert_eq!(names(&directory.path().join("deep")), ["file"]);
    }

    #[test]
    fn what_was_planted_where_a_file_is_made_is_never_written_to() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("victim"), "precious").unwrap();
        let attributes = Attributes { mode: 0o644, user: None, group: None };
        std::fs::hard_link(at("victim"), at(&temporary_name("hard", NEW))).unwrap();
        std::os::unix::fs::symlink(at("victim"), at(&temporary_name("soft", NEW))).unwrap();
        for name in ["hard", "soft"] {
            let written = replace(&root(directory.path()), &path(&format!("data/{name}")), b"new", &attributes);
            assert!(written.is_ok_and(|changed| changed), "{name}");
            assert_eq!(std::fs::read_to_string(at(name)).unwrap(), "new");
        }
        assert_eq!(std::fs::read_to_string(at("victim")).unwrap(), "precious");
        assert_eq!(names(directory.path()), ["hard", "soft", "victim"]);
    }
}
