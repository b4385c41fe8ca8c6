//! `fettle step build`

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use clap::Args;
use serde::Deserialize;
use serde_json::json;
use tokio::process::Command;

use super::{Session, look};
use crate::{error::CommandError, output};

const TARGET: &str = "wasm32-wasip2";
const PROFILE: &str = "step";

/// Builds a crate into a component: `cargo build --profile step --target wasm32-wasip2`, nothing else.
///
/// Then asks the component what it is and prints path, size, digest and kind.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle step build steps/file-render
  fettle step build -p fettle-step-file-render

The crate's workspace needs a profile `step`:
  [profile.step]
  inherits = \"release\"
  opt-level = \"s\"
  lto = true
  codegen-units = 1
  panic = \"abort\"
  strip = true")]
pub struct Build {
    /// The crate's directory.
    #[arg(value_name = "DIR", default_value = ".", conflicts_with = "package")]
    directory: PathBuf,
    /// A package of the workspace in this directory.
    #[arg(short, long)]
    package: Option<String>,
}

/// A line of cargo's messages, as far as it matters.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

impl Build {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        if !self.directory.is_dir() {
            let source = std::io::Error::new(std::io::ErrorKind::NotFound, "there is no such directory");
            return Err(CommandError::Read { path: self.directory.clone(), source });
        }
        self.check_target().await?;
        let path = self.build().await?;
        let seen = look::look(&path, look::read(&path).await?).await?;
        let answer = json!({ "path": path, "size": seen.size, "digest": seen.digest, "kind": seen.descriptor.kind });
        session.show(&answer, |_| {
            format!(
                "path    {}\nsize    {}\ndigest  {}\nkind    {}\n",
                path.display(),
                output::bytes(seen.size),
                seen.digest,
                seen.descriptor.kind
            )
        })?;
        seen.check(&path)
    }

    /// The toolchain is asked in the crate's directory: its `rust-toolchain.toml` counts.
    async fn check_target(&self) -> Result<(), CommandError> {
        let answer = program("rustc", &self.directory)
            .args(["--print", "target-libdir", "--target", TARGET])
            .output()
            .await
            .map_err(|error| not_found("rustc", &error))?;
        let directory = String::from_utf8_lossy(&answer.stdout);
        if answer.status.success() && Path::new(directory.trim()).is_dir() {
            return Ok(());
        }
        Err(CommandError::Build {
            problem: format!("the Rust target {TARGET} is not installed"),
            fix: format!("run `rustup target add {TARGET}` in {}", self.directory.display()),
        })
    }

    async fn build(&self) -> Result<PathBuf, CommandError> {
        let mut cargo = program("cargo", &self.directory);
        cargo.args(["build", "--profile", PROFILE, "--target", TARGET]);
        cargo.arg("--message-format=json-render-diagnostics");
        if let Some(package) = &self.package {
            cargo.args(["--package", package]);
        }
        // What cargo says to people goes where it always goes.
        let running = cargo.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
        let running = running.map_err(|error| not_found("cargo", &error))?;
        let built = running.wait_with_output().await.map_err(|error| not_found("cargo", &error))?;
        if !built.status.success() {
            return Err(CommandError::Build {
                problem: "cargo could not build the step".to_owned(),
                fix: "read cargo's words above; when it knows no profile `step`, `fettle step build --help` shows one"
                    .to_owned(),
            });
        }
        let mut found = artifacts(&String::from_utf8_lossy(&built.stdout));
        match (found.pop(), found.len()) {
            (Some(path), 0) => Ok(path),
            (None, _) => Err(CommandError::Build {
                problem: "the crate has no component".to_owned(),
                fix: "add `[lib] crate-type = [\"cdylib\", \"rlib\"]` to its Cargo.toml".to_owned(),
            }),
            (Some(_), more) => Err(CommandError::Build {
                problem: format!("{} components were built", more + 1),
                fix: "name one package with -p".to_owned(),
            }),
        }
    }
}

/// The components that cargo says it made.
fn artifacts(messages: &str) -> Vec<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Message>(line).ok())
        .filter(|message| message.reason == "compiler-artifact")
        .flat_map(|message| message.filenames)
        .filter(|path| path.extension().is_some_and(|ending| ending == "wasm"))
        .collect()
}

#[expect(clippy::disallowed_methods, reason = "an author's machine, not a node: it runs the author's own toolchain")]
fn program(name: &str, directory: &Path) -> Command {
    let mut command = Command::new(name);
    command.current_dir(directory).stdin(Stdio::null()).kill_on_drop(true);
    command
}

fn not_found(name: &str, error: &std::io::Error) -> CommandError {
    CommandError::Build {
        problem: format!("{name} cannot be started: {error}"),
        fix: "install Rust with rustup, and put ~/.cargo/bin on the PATH".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_components_are_found_among_cargos_messages() {
        let messages = r#"
            {"reason":"compiler-artifact","package_id":"dep","filenames":["/t/libdep.rlib"]}
            {"reason":"build-script-executed"}
            {"reason":"compiler-artifact","package_id":"a","filenames":["/t/step/a.wasm"]}
            not json
            {"reason":"build-finished","success":true}"#;
        assert_eq!(artifacts(messages), [PathBuf::from("/t/step/a.wasm")]);
    }
}
