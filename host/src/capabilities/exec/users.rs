//! Users and groups of this node, by name or number.

use nix::unistd::{Group, User};
use rustix::fs::{Gid, Uid};

/// A user and its first group.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// The user.
    pub user: Uid,
    /// The user's first group.
    pub group: Gid,
}

/// The user of this name or number.
#[must_use]
pub fn user(name: &str) -> Option<Identity> {
    let found = match name.parse() {
        Ok(number) => User::from_uid(nix::unistd::Uid::from_raw(number)),
        Err(_) => User::from_name(name),
    };
    let user = found.ok().flatten()?;
    Some(Identity { user: Uid::from_raw(user.uid.as_raw()), group: Gid::from_raw(user.gid.as_raw()) })
}

/// The group of this name or number.
#[must_use]
pub fn group(name: &str) -> Option<Gid> {
    let found = match name.parse() {
        Ok(number) => Group::from_gid(nix::unistd::Gid::from_raw(number)),
        Err(_) => Group::from_name(name),
    };
    Some(Gid::from_raw(found.ok().flatten()?.gid.as_raw()))
}
