//! `fettle nvml-snapshot`: the host runs its own program again, so that a sick driver hangs a child.

use std::path::PathBuf;

use clap::Args;
use fettle_host::capabilities::gpu::nvml;

use crate::error::CommandError;

/// Reads NVML and prints JSON.
#[derive(Debug, Args)]
pub struct NvmlSnapshot {
    /// Another library than the system's.
    #[arg(long)]
    library: Option<PathBuf>,
}

impl NvmlSnapshot {
    /// Runs the command.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub fn run(&self) -> Result<(), CommandError> {
        nvml::print_snapshot(self.library.as_deref()).map_err(CommandError::Output)
    }
}
