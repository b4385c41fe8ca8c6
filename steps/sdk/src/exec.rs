//! Command profiles: the only way to run a program.

#[cfg(target_arch = "wasm32")]
use crate::bindings::fettle::exec::exec as backend;
pub use crate::bindings::fettle::exec::exec::{Argument, Error, Outcome, Termination};
#[cfg(not(target_arch = "wasm32"))]
use crate::fake::exec as backend;
use crate::{CallError, Failure, call::attempt};

/// Runs a profile with these arguments and waits for it.
///
/// # Errors
/// What the host answers.
pub fn run(profile: &str, arguments: &[Argument]) -> Result<Outcome, CallError<Error>> {
    attempt(backend::run(profile, arguments), || format!("run the command profile `{profile}`"))
}

impl From<CallError<Error>> for Failure {
    fn from(error: CallError<Error>) -> Self {
        let CallError { attempted, cause } = error;
        match cause {
            Error::AccessDenied => Self::denied(
                "exec.access-denied",
                format!("may not {attempted}: the grant does not name it; add it to `exec.profiles` of this step"),
            ),
            Error::InvalidArgument(rule) => {
                Self::invalid_input("exec.invalid-argument", format!("cannot {attempted}: {rule}"))
            }
            Error::NotStarted(reason) => {
                Self::permanent("exec.not-started", format!("could not {attempted}: it did not start: {reason}"))
            }
        }
    }
}
