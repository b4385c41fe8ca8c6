//! NVIDIA GPUs through NVML, read-only.

#[cfg(target_arch = "wasm32")]
use crate::bindings::fettle::gpu::gpu as backend;
pub use crate::bindings::fettle::gpu::gpu::{Device, Ecc, Error, Pcie, RemappedRows, Snapshot, Temperature};
#[cfg(not(target_arch = "wasm32"))]
use crate::fake::gpu as backend;
use crate::{CallError, Failure, call::attempt};

/// Everything about all GPUs at once.
///
/// # Errors
/// What the host answers; `not-applicable` where there is no NVIDIA driver.
pub fn read() -> Result<Snapshot, CallError<Error>> {
    attempt(backend::read(), || "read the state of the GPUs".to_owned())
}

impl From<CallError<Error>> for Failure {
    fn from(error: CallError<Error>) -> Self {
        let CallError { attempted, cause } = error;
        match cause {
            Error::AccessDenied => Self::denied(
                "gpu.access-denied",
                format!("may not {attempted}: add `gpu: {{ read: true }}` to the grant of this step"),
            ),
            Error::NotApplicable(reason) => {
                Self::permanent("gpu.not-applicable", format!("cannot {attempted}: {reason}"))
            }
            Error::Unresponsive(reason) => Self::permanent(
                "gpu.unresponsive",
                format!(
                    "could not {attempted}: the driver did not answer: {reason}; drain the node and look at its driver"
                ),
            ),
        }
    }
}
