//! The commands, one module per group and one file per command.

mod access;
pub mod allocation;
pub mod artifact;
pub mod catalog;
pub mod completions;
pub mod definition;
pub mod dev;
pub mod exit_codes;
pub mod key;
mod kind;
pub mod login;
pub mod node;
pub mod node_group;
mod node_set;
pub mod nvml_snapshot;
pub mod operation;
pub mod operation_policy;
pub mod policy;
mod published;
pub mod step;
mod target;
pub mod trust;
mod verdict;
pub mod webhook;

use serde::Serialize;

use crate::{
    context::Context,
    error::CommandError,
    output::{self, Output},
    plane::Warning,
};

/// What every command is given.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// How results are shown.
    pub output: Output,
    /// What options fall back to.
    pub context: Context,
}

impl Session {
    /// Shows a result.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub fn show<T: Serialize>(&self, value: &T, text: impl FnOnce(&T) -> String) -> Result<(), CommandError> {
        self.output.show(value, text).map_err(CommandError::output)
    }

    /// Tells people what they should know besides; in JSON it is part of the result.
    pub(crate) fn warn(&self, warnings: &[Warning]) {
        for warning in warnings.iter().filter(|_| !self.output.json) {
            output::remark(output::wrap("warning: ", &warning.message).trim_end());
        }
    }
}
