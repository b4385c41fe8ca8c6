//! `files` on the fake node.

use super::{
    digest_of,
    node::{File, State, with},
};
use crate::files::{Attributes, CONTENT_LIMIT, Error, Kind, Metadata};

pub(super) fn regular(content: Vec<u8>, mode: u32) -> File {
    let size = content.len() as u64;
    File { content, metadata: Metadata { kind: Kind::Regular, size, mode, user_id: 0, group_id: 0 } }
}

/// Whether one of `prefixes` is `path` or above it, by whole names.
fn covers(prefixes: &std::collections::BTreeSet<String>, path: &str) -> bool {
    prefixes
        .iter()
        .any(|prefix| path.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// The rules that come before every call: form, grant, a fault that a test asked for.
pub(super) fn check(state: &mut State, path: &str, writes: bool) -> Result<(), Error> {
    if path.starts_with('/') || !path.contains('/') || path.split('/').any(|name| matches!(name, "" | "." | "..")) {
        return Err(Error::InvalidPath("write `root/relative/path` without `..`".to_owned()));
    }
    let granted = covers(&state.writable, path) || (!writes && covers(&state.readable, path));
    if !granted {
        return Err(Error::AccessDenied);
    }
    state.files_fault.take().map_or(Ok(()), Err)
}

fn call<T>(name: &str, path: &str, writes: bool, act: impl FnOnce(&mut State) -> Result<T, Error>) -> Result<T, Error> {
    with(|state| {
        state.calls.push(format!("files.{name} {path}"));
        check(state, path, writes)?;
        act(state)
    })
}

fn content(state: &State, path: &str) -> Result<Option<Vec<u8>>, Error> {
    match state.files.get(path) {
        Some(file) if file.metadata.kind == Kind::Regular => Ok(Some(file.content.clone())),
        Some(_) => Err(Error::Failed("it is not a regular file".to_owned())),
        None => Ok(None),
    }
}

pub(crate) fn stat(path: &str) -> Result<Option<Metadata>, Error> {
    call("stat", path, false, |state| Ok(state.files.get(path).map(|file| file.metadata)))
}

pub(crate) fn read(path: &str, limit: u64) -> Result<Vec<u8>, Error> {
    call("read", path, false, |state| {
        let content = content(state, path)?.ok_or(Error::NotFound)?;
        let limit = limit.min(CONTENT_LIMIT);
        if content.len() as u64 > limit { Err(Error::TooLarge(limit)) } else { Ok(content) }
    })
}

pub(crate) fn digest(path: &str) -> Result<Option<String>, Error> {
    call("digest", path, false, |state| Ok(content(state, path)?.map(|content| digest_of(&content))))
}

pub(crate) fn write(path: &str, new: &[u8], attributes: &Attributes) -> Result<bool, Error> {
    call("write", path, true, |state| {
        if new.len() as u64 > CONTENT_LIMIT {
            return Err(Error::TooLarge(CONTENT_LIMIT));
        }
        if attributes.mode > 0o777 {
            return Err(Error::Failed("set-user-id, set-group-id and sticky are refused".to_owned()));
        }
        let mut file = regular(new.to_vec(), attributes.mode);
        file.metadata.user_id = identity(attributes.owner.as_deref())?;
        file.metadata.group_id = identity(attributes.group.as_deref())?;
        let changed = state.files.get(path) != Some(&file);
        state.files.insert(path.to_owned(), file);
        Ok(changed)
    })
}

pub(crate) fn remove(path: &str) -> Result<bool, Error> {
    call("remove", path, true, |state| {
        let was_there = content(state, path)?.is_some();
        state.files.remove(path);
        Ok(was_there)
    })
}

/// The fake node knows numbers only.
fn identity(name: Option<&str>) -> Result<u32, Error> {
    name.map_or(Ok(0), |name| name.parse().map_err(|_| Error::Failed(format!("there is no user or group `{name}`"))))
}
