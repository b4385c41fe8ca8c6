//! Read-only facts about the node.

#[cfg(target_arch = "wasm32")]
use crate::bindings::fettle::facts::facts as backend;
pub use crate::bindings::fettle::facts::facts::{
    Error, Filesystem, KernelMessage, MemoryUsage, Process, SystemInformation,
};
#[cfg(not(target_arch = "wasm32"))]
use crate::fake::facts as backend;
use crate::{CallError, Failure, call::attempt};

/// What a call here answers.
pub type Result<T> = std::result::Result<T, CallError<Error>>;

macro_rules! fact {
    ($(#[$doc:meta])* $name:ident, $label:literal -> $type:ty) => {
        $(#[$doc])*
        ///
        /// # Errors
        /// What the host answers.
        pub fn $name() -> Result<$type> {
            attempt(backend::$name(), || concat!("read the fact `", $label, "`").to_owned())
        }
    };
}

fact!(
    /// Kernel, processors, uptime.
    system, "system" -> SystemInformation
);
fact!(
    /// Memory and swap, in bytes.
    memory, "memory" -> MemoryUsage
);
fact!(
    /// Real file systems; pseudo ones are left out.
    filesystems, "filesystems" -> Vec<Filesystem>
);
fact!(
    /// Processes, ordered by pid.
    processes, "processes" -> Vec<Process>
);
fact!(
    /// What the kernel log holds now, oldest first.
    kernel_log, "kernel-log" -> Vec<KernelMessage>
);

impl From<CallError<Error>> for Failure {
    fn from(error: CallError<Error>) -> Self {
        let CallError { attempted, cause } = error;
        match cause {
            Error::AccessDenied => Self::denied(
                "facts.access-denied",
                format!("may not {attempted}: the grant does not name it; add it to `facts.read` of this step"),
            ),
            Error::Unavailable(reason) => Self::transient(
                "facts.unavailable",
                format!("could not {attempted}: the node does not offer it: {reason}"),
            ),
        }
    }
}
