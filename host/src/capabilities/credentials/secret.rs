//! A secret in memory of its own: locked, in no core dump, in no child, and overwritten when it is dropped.

use std::{fmt, io, str};

use memmap2::{Advice, MmapMut};
use zeroize::Zeroize as _;

/// The most bytes of one secret.
pub const LONGEST: usize = 16 << 10;

/// Text that is written to no log, no journal and no disk.
pub struct Secret {
    memory: MmapMut,
    length: usize,
}

/// Why a secret is not kept.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The system does not lock the memory.
    #[error(
        "this host may not lock memory, and keeps no secret where it could be written to disk; raise `LimitMEMLOCK` \
         of its service ({0})"
    )]
    NotLocked(io::ErrorKind),
    /// The memory could not be had, or not be kept from dumps and children.
    #[error("there is no memory for a secret ({0})")]
    NoMemory(io::ErrorKind),
    /// It is longer than any credential is.
    #[error("a credential of {0} bytes is longer than {LONGEST}")]
    TooLong(usize),
}

impl Secret {
    /// Keeps a copy of this text. The caller overwrites its own.
    ///
    /// # Errors
    /// When the memory cannot be locked.
    pub fn new(text: &str) -> Result<Self, SecretError> {
        let bytes = text.as_bytes();
        if bytes.len() > LONGEST {
            return Err(SecretError::TooLong(bytes.len()));
        }
        let unusable = |error: io::Error| SecretError::NoMemory(error.kind());
        let mut memory = MmapMut::map_anon(bytes.len().max(1)).map_err(unusable)?;
        memory.lock().map_err(|error| SecretError::NotLocked(error.kind()))?;
        for advice in [Advice::DontDump, Advice::DontFork] {
            memory.advise(advice).map_err(unusable)?;
        }
        if let Some(kept) = memory.get_mut(..bytes.len()) {
            kept.copy_from_slice(bytes);
        }
        Ok(Self { memory, length: bytes.len() })
    }

    /// The text. Whoever copies it overwrites the copy.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.memory.get(..self.length).and_then(|bytes| str::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.memory.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel says of the mapping that holds this address.
    fn flags(address: usize) -> Vec<String> {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        for line in maps.lines() {
            let first = line.split_whitespace().next().unwrap_or_default();
            if let Some((from, to)) = first.split_once('-').filter(|_| !first.ends_with(':')) {
                let (from, to) = (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16));
                inside = from.is_ok_and(|from| from <= address) && to.is_ok_and(|to| address < to);
            } else if inside && first == "VmFlags:" {
                return line.split_whitespace().skip(1).map(str::to_owned).collect();
            }
        }
        Vec::new()
    }

    #[test]
    fn it_is_locked_and_neither_dumped_nor_inherited() {
        let secret = Secret::new("a secret").unwrap();
        assert_eq!(secret.expose(), "a secret");
        let flags = flags(secret.memory.as_ptr().addr());
        for flag in ["lo", "dd", "dc"] {
            assert!(flags.iter().any(|found| found == flag), "{flag} is missing in {flags:?}");
        }
        assert_eq!(format!("{secret:?}"), "Secret");
        assert_eq!(Secret::new("").unwrap().expose(), "");
        assert!(matches!(Secret::new(&"a".repeat(LONGEST + 1)), Err(SecretError::TooLong(_))));
    }
}
