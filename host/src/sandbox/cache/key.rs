//! The key that entries are authenticated with. It never leaves this host, and nobody else may read it.

use std::{
    io::{self, Write as _},
    path::Path,
};

use super::{CacheError, entry::Flaw, file};
use crate::mutation::{Protection, off};

const LENGTH: usize = 32;
const NAME: &str = "key";

/// Random bytes for a new key, from the system's generator.
pub type FreshKey = fn() -> io::Result<[u8; LENGTH]>;

/// A key.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Key([u8; LENGTH]);

impl Key {
    #[cfg(test)]
    pub(super) const fn from_bytes(bytes: [u8; LENGTH]) -> Self {
        Self(bytes)
    }

    pub(super) const fn bytes(&self) -> &[u8; LENGTH] {
        &self.0
    }

    /// The key of `directory`; a new one when there is none, or when the one that is there may be known
    /// to others. Everything made with an old one is refused from then on.
    pub(super) fn ensure(directory: &Path, fresh: FreshKey) -> Result<Self, CacheError> {
        let path = directory.join(NAME);
        let failed = |source| CacheError::Key { path: path.clone(), source };
        // Another process may make one at the same time: the first one counts.
        for _ in 0..8 {
            match read(&path).map_err(failed)? {
                Read::Key(key) => return Ok(key),
                Read::Nothing => make(directory, &path, fresh).map_err(failed)?,
                Read::Flawed(reason) => {
                    tracing::warn!(
                        target: "fettle::audit",
                        event = "code-cache.key-refused",
                        path = %path.display(),
                        reason,
                        "the key of the compiled code is replaced; everything made with it is compiled again"
                    );
                    file::remove(&path).map_err(failed)?;
                }
            }
        }
        Err(failed(io::Error::other("it is replaced again and again by somebody else")))
    }
}

enum Read {
    Nothing,
    Flawed(&'static str),
    Key(Key),
}

fn read(path: &Path) -> io::Result<Read> {
    Ok(match file::read(path, LENGTH as u64, off(Protection::CodeKeyIsPrivate))? {
        file::Found::Nothing => Read::Nothing,
        file::Found::Flawed(Flaw::NotPrivate) => Read::Flawed("others can read or write it"),
        file::Found::Flawed(_) => Read::Flawed("it is not what this host made"),
        file::Found::Content(_, bytes) => {
            <[u8; LENGTH]>::try_from(bytes).map_or(Read::Flawed("its length is wrong"), |key| Read::Key(Key(key)))
        }
    })
}

fn make(directory: &Path, path: &Path, fresh: FreshKey) -> io::Result<()> {
    let mut file = file::temporary(directory)?;
    file.write_all(&fresh()?)?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
        Ok(_) | Err(_) => Ok(()),
    }
}
