//! Starting the author's own programs: cargo, rustc, git.

use std::{
    io,
    path::Path,
    process::{Output, Stdio},
};

use tokio::process::Command;

use super::environment;
use crate::error::CommandError;

/// A program with nothing of the environment but what may reach a build.
#[expect(clippy::disallowed_methods, reason = "an author's machine, not a node: it runs the author's own toolchain")]
pub(super) fn program(name: &str, directory: &Path) -> Command {
    let mut command = Command::new(name);
    command.current_dir(directory).stdin(Stdio::null()).kill_on_drop(true);
    command.env_clear().envs(environment::kept());
    command
}

/// Runs it and takes what it writes.
pub(super) async fn output(mut command: Command, name: &str) -> Result<Output, CommandError> {
    command.output().await.map_err(|error| not_found(name, &error))
}

/// What it writes, trimmed, when it is there and succeeds.
pub(super) async fn answer(command: Command, name: &str) -> Option<String> {
    let output = output(command, name).await.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// What to say of a program that cannot be started.
pub(super) fn not_found(name: &str, error: &io::Error) -> CommandError {
    CommandError::Build {
        problem: format!("{name} cannot be started: {error}"),
        fix: "install Rust with rustup, and put ~/.cargo/bin on the PATH".to_owned(),
    }
}
