//! Bulk data between registries and files. Bytes never pass through the step.

#[cfg(target_arch = "wasm32")]
use crate::bindings::fettle::transfer::transfer as backend;
pub use crate::bindings::fettle::transfer::transfer::{Blob, Error, Manifest, Transferred};
#[cfg(not(target_arch = "wasm32"))]
use crate::fake::transfer as backend;
use crate::{CallError, Failure, call::attempt};

/// What a call here answers.
pub type Result<T> = std::result::Result<T, CallError<Error>>;

/// Lets the transfers of this attempt carry a credential, by its handle, wherever its scope has them.
///
/// # Errors
/// What the host answers.
pub fn authorize(credential: &str) -> Result<()> {
    attempt(backend::authorize(credential), || "carry a credential".to_owned())
}

/// Fetches a manifest by digest, `host:port/repository@sha256:<hex>`; its bytes have that digest.
///
/// # Errors
/// What the host answers.
pub fn pull_manifest(reference: &str) -> Result<Manifest> {
    attempt(backend::pull_manifest(reference), || format!("pull the manifest `{reference}`"))
}

/// Fetches blobs of one repository, `host:port/repository`, to files.
///
/// # Errors
/// What the host answers. Files that were complete stay.
pub fn pull_blobs(repository: &str, blobs: &[Blob]) -> Result<Vec<Transferred>> {
    attempt(backend::pull_blobs(repository, blobs), || format!("pull {} blobs from `{repository}`", blobs.len()))
}

impl From<CallError<Error>> for Failure {
    fn from(error: CallError<Error>) -> Self {
        let CallError { attempted, cause } = error;
        match cause {
            Error::AccessDenied => Self::denied(
                "transfer.access-denied",
                format!(
                    "may not {attempted}: the grant does not cover the registry, a destination or the credential; \
                     add them to `transfer.hosts`, `files.write` and `transfer.credentials` of this step"
                ),
            ),
            Error::InvalidRequest(rule) => {
                Self::invalid_input("transfer.invalid-request", format!("cannot {attempted}: {rule}"))
            }
            Error::NotFound(what) => {
                Self::permanent("transfer.not-found", format!("cannot {attempted}: the registry has no {what}"))
            }
            Error::Unavailable(reason) => {
                Self::transient("transfer.unavailable", format!("could not {attempted}: {reason}; it may work later"))
            }
            Error::Corrupt(reason) => Self::permanent(
                "transfer.corrupt",
                format!(
                    "refused what came to {attempted}: {reason}; nothing of it was kept, so mend the registry's content"
                ),
            ),
            Error::NoSpace(reason) => Self::transient(
                "transfer.no-space",
                format!("could not {attempted}: no space is left: {reason}; free some and try again"),
            ),
            Error::LimitExceeded(limit) => {
                Self::permanent("transfer.limit-exceeded", format!("may not {attempted}: {limit}"))
            }
            Error::Failed(reason) => Self::permanent("transfer.failed", format!("cannot {attempted}: {reason}")),
        }
    }
}
