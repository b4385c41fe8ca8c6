//! Files below named roots; a path is `root/relative/path`.

#[cfg(target_arch = "wasm32")]
use crate::bindings::fettle::files::files as backend;
pub use crate::bindings::fettle::files::files::{Attributes, Error, Kind, Metadata};
#[cfg(not(target_arch = "wasm32"))]
use crate::fake::files as backend;
use crate::{CallError, Failure, call::attempt};

/// The most that [`read`] and [`write()`] move, in bytes.
pub const CONTENT_LIMIT: u64 = 1024 * 1024;

/// What a call here answers.
pub type Result<T> = std::result::Result<T, CallError<Error>>;

/// Attributes with this mode and the host's own user and group.
#[must_use]
pub const fn mode(mode: u32) -> Attributes {
    Attributes { mode, owner: None, group: None }
}

/// Looks at one path; none when nothing is there.
///
/// # Errors
/// What the host answers.
pub fn stat(path: &str) -> Result<Option<Metadata>> {
    attempt(backend::stat(path), || format!("look at `{path}`"))
}

/// Reads a whole regular file of at most `limit` bytes.
///
/// # Errors
/// What the host answers; `too-large` when it is longer than `limit` or 1 MiB.
pub fn read(path: &str, limit: u64) -> Result<Vec<u8>> {
    attempt(backend::read(path, limit), || format!("read `{path}`"))
}

/// As [`read`]; none when nothing is there.
///
/// # Errors
/// What the host answers.
pub fn read_if_present(path: &str, limit: u64) -> Result<Option<Vec<u8>>> {
    match read(path, limit) {
        Err(CallError { cause: Error::NotFound, .. }) => Ok(None),
        answer => answer.map(Some),
    }
}

/// The SHA-256 of a regular file as `sha256:<hex>`, none when nothing is there.
///
/// # Errors
/// What the host answers.
pub fn digest(path: &str) -> Result<Option<String>> {
    attempt(backend::digest(path), || format!("hash `{path}`"))
}

/// Replaces a file whole and makes missing directories. Answers whether anything changed.
///
/// # Errors
/// What the host answers.
pub fn write(path: &str, content: &[u8], attributes: Attributes) -> Result<bool> {
    attempt(backend::write(path, content, &attributes), || format!("write `{path}`"))
}

/// Removes one regular file. Answers whether it was there.
///
/// # Errors
/// What the host answers.
pub fn remove(path: &str) -> Result<bool> {
    attempt(backend::remove(path), || format!("remove `{path}`"))
}

impl From<CallError<Error>> for Failure {
    fn from(error: CallError<Error>) -> Self {
        let CallError { attempted, cause } = error;
        match cause {
            Error::AccessDenied => Self::denied(
                "files.access-denied",
                format!(
                    "may not {attempted}: the grant does not cover it; add it to `files.read` or `files.write` of this step"
                ),
            ),
            Error::InvalidPath(rule) => Self::invalid_input(
                "files.invalid-path",
                format!("cannot {attempted}: the path is not allowed: {rule}"),
            ),
            Error::NotFound => Self::permanent("files.not-found", format!("cannot {attempted}: nothing is there")),
            Error::TooLarge(limit) => Self::permanent(
                "files.too-large",
                format!("cannot {attempted}: it is larger than the limit of {limit} bytes"),
            ),
            Error::NoSpace(reason) => Self::transient(
                "files.no-space",
                format!("cannot {attempted}: no space is left: {reason}; free some and try again"),
            ),
            Error::Failed(reason) => Self::permanent("files.failed", format!("cannot {attempted}: {reason}")),
        }
    }
}
