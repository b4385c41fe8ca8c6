//! The newest versions that were accepted, by kind and name: `versions.json`.
//!
//! A file that cannot be read is an error, never "nothing was seen": whoever can damage it must not be
//! able to bring old versions back that way. Whoever can remove it can; that is the host's own user.

use std::{collections::BTreeMap, fs::File, path::Path};

use rustix::fs::{FlockOperation, flock};

use super::{StoreError, file};
use crate::{
    kind::ArtifactKind,
    trust::{Seen, Version},
};

const FILE: &str = "versions.json";
const LOCK: &str = "versions.lock";
/// Largest file, in bytes: about 100,000 names.
const LIMIT: u64 = 8 << 20;

type All = BTreeMap<ArtifactKind, Seen>;

pub(super) fn seen(directory: &Path, kind: ArtifactKind) -> Result<Seen, StoreError> {
    Ok(read(directory)?.remove(&kind).unwrap_or_default())
}

pub(super) fn accept(
    directory: &Path,
    kind: ArtifactKind,
    versions: Vec<(String, Version)>,
) -> Result<bool, StoreError> {
    let lock = directory.join(LOCK);
    let held = File::create(&lock).map_err(StoreError::at(&lock))?;
    flock(&held, FlockOperation::LockExclusive).map_err(|error| StoreError::at(&lock)(error.into()))?;
    let mut all = read(directory)?;
    let known = all.entry(kind).or_default();
    let newer = |(name, version): &(String, Version)| known.get(name).is_none_or(|newest| version > newest);
    let older = |(name, version): &(String, Version)| known.get(name).is_some_and(|newest| version < newest);
    if versions.iter().any(older) {
        return Ok(false);
    }
    if versions.iter().any(newer) {
        // Of two signers who say two versions of one name, the lower counts: both vouch for that one.
        for (name, version) in lowest(versions) {
            known.insert(name, version);
        }
        let content = serde_json::to_vec(&all).map_err(|error| StoreError::at(directory)(error.into()))?;
        file::write_file(directory, FILE, &content)?;
    }
    Ok(true)
}

fn lowest(versions: Vec<(String, Version)>) -> Seen {
    let mut lowest = Seen::new();
    for (name, version) in versions {
        match lowest.get(&name) {
            Some(known) if *known <= version => {}
            _ => {
                lowest.insert(name, version);
            }
        }
    }
    lowest
}

fn read(directory: &Path) -> Result<All, StoreError> {
    let path = directory.join(FILE);
    let damaged = |problem: String| StoreError::Versions { path: path.clone(), problem };
    match std::fs::symlink_metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(All::new()),
        Err(error) => return Err(StoreError::at(&path)(error)),
        Ok(metadata) if !metadata.is_file() => return Err(damaged("it is not a plain file".to_owned())),
        Ok(_) => {}
    }
    let content = file::read_file(&path, LIMIT)?.ok_or_else(|| damaged(format!("it is larger than {LIMIT} bytes")))?;
    serde_json::from_slice(&content).map_err(|error| damaged(error.to_string()))
}
