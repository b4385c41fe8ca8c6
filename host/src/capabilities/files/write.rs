//! Replacing a file whole: temporary file, fsync, rename, fsync of the directory.

use std::{fs::File, io::Read as _, os::fd::OwnedFd};

use rustix::{
    fs::{AtFlags, FlockOperation, Gid, Mode, OFlags, Uid, fchmod, fchown, flock, openat, renameat, unlinkat},
    io::Errno,
};

use super::{
    Error, NodePath, Root, error_of,
    unfinished::{self, Claim, NEW, claim, temporary_name},
};
use crate::capabilities::exec::users;

/// How often an unfinished file may be taken away before a write gives up.
const ATTEMPTS: usize = 100;

/// Attributes with names looked up.
pub(super) struct Attributes {
    pub(super) mode: u32,
    pub(super) user: Option<Uid>,
    pub(super) group: Option<Gid>,
}

impl Attributes {
    pub(super) fn of(wanted: &crate::sandbox::bindings::fettle::files::files::Attributes) -> Result<Self, Error> {
        if wanted.mode & !0o777 != 0 {
            return Err(Error::InvalidPath(format!(
                "cannot have mode {:o}: set-user-id, set-group-id and sticky are refused",
                wanted.mode
            )));
        }
        let unknown = |what: &str, name: &str| {
            Error::InvalidPath(format!("cannot belong to {what} `{name}`: this node has none of that name"))
        };
        // A number needs no name on this node.
        let user = match wanted.owner.as_deref() {
            Some(name) => Some(match number(name) {
                Some(number) => Uid::from_raw(number),
                None => users::user(name).ok_or_else(|| unknown("user", name))?.user,
            }),
            None => None,
        };
        let group = match wanted.group.as_deref() {
            Some(name) => Some(match number(name) {
                Some(number) => Gid::from_raw(number),
                None => users::group(name).ok_or_else(|| unknown("group", name))?,
            }),
            None => None,
        };
        Ok(Self { mode: wanted.mode, user, group })
    }
}

/// The number that a name is; the largest one stands for "nobody is changed".
fn number(name: &str) -> Option<u32> {
    name.parse().ok().filter(|number| *number != u32::MAX)
}

/// Reads at most `limit` bytes.
pub(super) fn read_all(file: OwnedFd, limit: u64) -> Result<Vec<u8>, Error> {
    let mut content = Vec::new();
    let read = File::from(file).take(limit + 1).read_to_end(&mut content);
    read.map_err(|error| Error::Failed(format!("the file could not be read: {error}")))?;
    if content.len() as u64 > limit { Err(Error::TooLarge(limit)) } else { Ok(content) }
}

/// Replaces the file when its content or attributes differ; answers whether they did.
pub(super) fn replace(root: &Root, path: &NodePath, content: &[u8], attributes: &Attributes) -> Result<bool, Error> {
    let Some((parent, name)) = path.parent(root, true)? else { return Err(Error::NotFound) };
    if is_the_same(&parent, name, content, attributes)? {
        return Ok(false);
    }
    let temporary = temporary_name(name, NEW);
    let file = create(&parent, &temporary)?;
    let written = fill(&file, content, attributes)
        .and_then(|()| renameat(&parent, &temporary, &parent, name).map_err(error_of))
        .and_then(|()| rustix::fs::fsync(&parent).map_err(error_of));
    if written.is_err() {
        let _ = unlinkat(&parent, &temporary, AtFlags::empty());
    }
    written.map(|()| true)
}

/// Makes the unfinished file and holds it. A leftover is removed first, never written to: it may be a link
/// to something else. Who writes the same file at this moment is waited for.
fn create(parent: &OwnedFd, name: &str) -> Result<OwnedFd, Error> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    for _ in 0..ATTEMPTS {
        match openat(parent, name, flags, Mode::from_raw_mode(0o600)) {
            Ok(file) if claim(parent, name, &file).map_err(error_of)? == Claim::Held => return Ok(file),
            Ok(_) => {}
            Err(Errno::EXIST) => {
                if unfinished::remove(parent, name).map_err(error_of)? == Claim::Busy {
                    wait(parent, name);
                }
            }
            Err(errno) => return Err(error_of(errno)),
        }
    }
    Err(Error::Failed("another step writes the same file over and over; let one of them write it".to_owned()))
}

/// Waits until nobody holds the unfinished file.
fn wait(parent: &OwnedFd, name: &str) {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    if let Ok(file) = openat(parent, name, flags, Mode::empty()) {
        let _ = flock(&file, FlockOperation::LockExclusive);
    }
}

fn fill(file: &OwnedFd, content: &[u8], attributes: &Attributes) -> Result<(), Error> {
    let mut rest = content;
    while !rest.is_empty() {
        match rustix::io::write(file, rest) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(error_of(errno)),
        }
    }
    if attributes.user.is_some() || attributes.group.is_some() {
        fchown(file, attributes.user, attributes.group).map_err(|errno| match errno {
            Errno::PERM => Error::Failed(
                "this host runs as an ordinary user, who cannot give files to somebody else; start the host as root, or \
                 leave owner and group out"
                    .to_owned(),
            ),
            other => error_of(other),
        })?;
    }
    fchmod(file, Mode::from_raw_mode(attributes.mode)).map_err(error_of)?;
    rustix::fs::fsync(file).map_err(error_of)
}

fn is_the_same(parent: &OwnedFd, name: &str, content: &[u8], attributes: &Attributes) -> Result<bool, Error> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match openat(parent, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(false),
        Err(Errno::LOOP) => return Err(error_of(Errno::LOOP)),
        // It cannot be read, so it is replaced.
        Err(_) => return Ok(false),
    };
    let stat = rustix::fs::fstat(&file).map_err(error_of)?;
    let attributes_hold = stat.st_mode & 0o7777 == attributes.mode
        && attributes.user.is_none_or(|user| user.as_raw() == stat.st_uid)
        && attributes.group.is_none_or(|group| group.as_raw() == stat.st_gid);
    if !attributes_hold || u64::try_from(stat.st_size) != Ok(content.len() as u64) {
        return Ok(false);
    }
    Ok(read_all(file, content.len() as u64)? == content)
}
