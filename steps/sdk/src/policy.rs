//! Which policy bundles count on the node. Signatures decide, and not the step.

#[cfg(target_arch = "wasm32")]
use crate::bindings::fettle::policy::policy as backend;
pub use crate::bindings::fettle::policy::policy::{ActivePolicies, Error, Refusal};
#[cfg(not(target_arch = "wasm32"))]
use crate::fake::policy as backend;
use crate::{CallError, Failure, call::attempt};

/// What counts now; none where every signed bundle does.
///
/// # Errors
/// What the host answers.
pub fn active() -> Result<Option<ActivePolicies>, CallError<Error>> {
    attempt(backend::active(), || "ask which policy bundles count".to_owned())
}

/// Has the node obey a signed activation, `host:port/repository@sha256:<hex>`. Again changes nothing.
///
/// # Errors
/// What the host answers; what counted before counts on.
pub fn activate(activation: &str) -> Result<ActivePolicies, CallError<Error>> {
    attempt(backend::activate(activation), || format!("activate {activation}"))
}

impl From<CallError<Error>> for Failure {
    fn from(error: CallError<Error>) -> Self {
        let CallError { attempted, cause } = error;
        match cause {
            Error::AccessDenied => Self::denied(
                "policy.access-denied",
                format!("may not {attempted}: add `policy: {{ activate: true }}` to the grant of this step"),
            ),
            Error::InvalidRequest(rule) => {
                Self::invalid_input("policy.invalid-request", format!("cannot {attempted}: {rule}"))
            }
            Error::Refused(Refusal { code, reason }) => {
                Self::denied(code, format!("the node refuses to {attempted}: {reason}"))
            }
            Error::Unavailable(reason) => {
                Self::transient("policy.unavailable", format!("cannot {attempted} now: {reason}"))
            }
            Error::Failed(reason) => Self::permanent("policy.failed", format!("cannot {attempted}: {reason}")),
        }
    }
}
