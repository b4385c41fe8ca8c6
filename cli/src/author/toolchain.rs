//! The Rust toolchain of a crate: the one that its `rust-toolchain.toml` names.

use std::path::{Path, PathBuf};

use super::program::{output, program};
use crate::error::CommandError;

/// The target that components are built for.
pub const TARGET: &str = "wasm32-wasip2";

/// A toolchain that can build components.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// `rustc 1.95.0 (59807616e 2026-04-14)`
    pub rustc: String,
    /// `cargo 1.95.0 (...)`
    pub cargo: String,
    /// Where it is.
    pub sysroot: PathBuf,
}

impl Toolchain {
    /// Asks the toolchain in the crate's directory.
    ///
    /// # Errors
    /// When there is none, or it has not the target.
    pub async fn of(directory: &Path) -> Result<Self, CommandError> {
        let rustc = ask("rustc", directory, &["--version"]).await?;
        let cargo = ask("cargo", directory, &["--version"]).await?;
        let sysroot = PathBuf::from(ask("rustc", directory, &["--print", "sysroot"]).await?);
        if sysroot.join("lib/rustlib").join(TARGET).is_dir() {
            return Ok(Self { rustc, cargo, sysroot });
        }
        Err(CommandError::Build {
            problem: format!("{rustc} has not the target {TARGET}"),
            fix: format!("run `rustup target add {TARGET}` in {}", directory.display()),
        })
    }
}

async fn ask(name: &str, directory: &Path, arguments: &[&str]) -> Result<String, CommandError> {
    let mut command = program(name, directory);
    command.args(arguments);
    let answer = output(command, name).await?;
    if answer.status.success() {
        return Ok(String::from_utf8_lossy(&answer.stdout).trim().to_owned());
    }
    Err(CommandError::Build {
        problem: format!(
            "`{name} {}` fails: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&answer.stderr).trim().lines().next().unwrap_or_default()
        ),
        fix: format!("install the toolchain that rust-toolchain.toml of {} names, with rustup", directory.display()),
    })
}
