//! Replacing a file whole: temporary file, fsync, rename, fsync of the directory.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::fd::OwnedFd,
};

use rustix::{
    fs::{AtFlags, Gid, Mode, OFlags, Uid, fchmod, fchown, openat, renameat, unlinkat},
    io::Errno,
};

use super::{Error, NodePath, Root, error_of};
use crate::capabilities::exec::users;

/// Attributes with names looked up.
pub(super) struct Attributes {
    mode: u32,
    user: Option<Uid>,
    group: Option<Gid>,
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
        let user = match wanted.owner.as_deref() {
            Some(name) => Some(users::user(name).ok_or_else(|| unknown("user", name))?.user),
            None => None,
        };
        let group = match wanted.group.as_deref() {
            Some(name) => Some(users::group(name).ok_or_else(|| unknown("group", name))?),
            None => None,
        };
        Ok(Self { mode: wanted.mode, user, group })
    }
}

/// Reads at most `limit` bytes.
pub(super) fn read_all(file: OwnedFd, limit: u64) -> Result<Vec<u8>, Error> {
    let mut content = Vec::new();
    let read = File::from(file).take(limit + 1).read_to_end(&mut content);
    read.map_err(|error| Error::Failed(format!("the file could not be read: {error}")))?;
    if content.len() as u64 > limit { Err(Error::TooLarge(limit)) } else { Ok(content) }
}

/// The name a file has until it is complete. One per destination, so that what a crash leaves is
/// replaced by the next attempt.
pub(crate) fn temporary_name(name: &str) -> String {
    let shortened: String = name.chars().take(60).collect();
    let digest = fettle_model::digest::Digest::of(name.as_bytes()).hex();
    format!(".{shortened}.{}.fettle-partial", digest.get(..12).unwrap_or_default())
}

/// Replaces the file when its content or attributes differ; answers whether they did.
pub(super) fn replace(root: &Root, path: &NodePath, content: &[u8], attributes: &Attributes) -> Result<bool, Error> {
    let Some((parent, name)) = path.parent(root, true)? else { return Err(Error::NotFound) };
    if is_the_same(&parent, name, content, attributes)? {
        return Ok(false);
    }
    let temporary = temporary_name(name);
    let written = write_temporary(&parent, &temporary, content, attributes)
        .and_then(|()| renameat(&parent, &temporary, &parent, name).map_err(error_of))
        .and_then(|()| rustix::fs::fsync(&parent).map_err(error_of));
    if written.is_err() {
        let _ = unlinkat(&parent, &temporary, AtFlags::empty());
    }
    written.map(|()| true)
}

fn write_temporary(parent: &OwnedFd, name: &str, content: &[u8], attributes: &Attributes) -> Result<(), Error> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(error_of(errno)),
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = openat(parent, name, flags, Mode::from_raw_mode(0o600)).map_err(error_of)?;
    let mut file = File::from(file);
    file.write_all(content).map_err(|error| match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => error_of(Errno::NOSPC),
        _ => Error::Failed(format!("the file could not be written: {error}")),
    })?;
    if attributes.user.is_some() || attributes.group.is_some() {
        fchown(&file, attributes.user, attributes.group).map_err(error_of)?;
    }
    fchmod(&file, Mode::from_raw_mode(attributes.mode)).map_err(error_of)?;
    rustix::fs::fsync(&file).map_err(error_of)
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
