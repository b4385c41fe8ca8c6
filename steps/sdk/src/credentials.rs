//! Credentials that the plane mints. A step gets handles, never a secret.

#[cfg(target_arch = "wasm32")]
use crate::bindings::fettle::credentials::credentials as backend;
pub use crate::bindings::fettle::credentials::credentials::Error;
#[cfg(not(target_arch = "wasm32"))]
use crate::fake::credentials as backend;
use crate::{CallError, Failure, call::attempt};

/// What a call here answers.
pub type Result<T> = std::result::Result<T, CallError<Error>>;

/// Has a credential minted, and answers its handle: to be put out, for a later step of the same task.
///
/// # Errors
/// What the host answers.
pub fn mint(credential_type: &str, scope: &str) -> Result<String> {
    attempt(backend::mint(credential_type, scope), || format!("have a credential minted: `{credential_type} {scope}`"))
}

impl From<CallError<Error>> for Failure {
    fn from(error: CallError<Error>) -> Self {
        let CallError { attempted, cause } = error;
        match cause {
            Error::AccessDenied => Self::denied(
                "credentials.access-denied",
                format!(
                    "may not {attempted}: add it to `credentials.mint` of this step; where it is there, the plane's \
                     audit trail says why it gives none"
                ),
            ),
            Error::InvalidRequest(rule) => {
                Self::invalid_input("credentials.invalid-request", format!("cannot {attempted}: {rule}"))
            }
            Error::Unavailable(reason) => Self::transient(
                "credentials.unavailable",
                format!("could not {attempted}: {reason}; it may work later"),
            ),
            Error::Failed(reason) => Self::permanent("credentials.failed", format!("cannot {attempted}: {reason}")),
        }
    }
}
