//! What authors do: make a step, build it, build it again elsewhere, publish it with what is known of it.

mod attesting;
mod building;
mod how_to;
mod making;
mod workflow;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// What dependencies of steps were built to, kept from run to run.
fn built_before() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("authors");
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// Variables of whoever runs the tests, which authors do not have.
const OTHERS: [&str; 8] = [
    "CARGO_TARGET_DIR",
    "CLIPPY_ARGS",
    "FETTLE_BUILDER_ID",
    "FETTLE_KEY",
    "FETTLE_TRUST",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTDOC",
    "RUSTUP_TOOLCHAIN",
];

/// A program in a directory, offline: all that is needed is what the repository needs too.
fn program(name: &str, directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(arguments).current_dir(directory).stdin(Stdio::null()).env("CARGO_NET_OFFLINE", "true");
    for name in OTHERS {
        command.env_remove(name);
    }
    command.env("FETTLE_CONTEXT", "/nonexistent/context.json");
    command
}

fn fettle(directory: &Path, arguments: &[&str]) -> Command {
    program(env!("CARGO_BIN_EXE_fettle"), directory, arguments)
}

fn text(output: &Output) -> String {
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{}\n{out}\n{error}", output.status)
}

/// Runs a program that must succeed.
fn run(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn json(command: Command) -> Value {
    serde_json::from_str(&run(command)).unwrap()
}

/// Runs a program that must fail: its code, and what it says.
fn fail(mut command: Command) -> (i32, String) {
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{command:?}: {}", text(&output));
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// Makes a step in a directory.
fn make(parent: &Path, name: &str, more: &[&str]) -> PathBuf {
    let sdk = root().join("steps/sdk");
    let kind = format!("acme.{}@v1", name.replace('-', "_"));
    let arguments = [&["step", "new", name, "--kind", &kind, "--sdk-path", sdk.to_str().unwrap()], more].concat();
    let made = json(fettle(parent, &[&arguments[..], &["--json"]].concat()));
    assert_eq!(made["locked"], true, "{made}");
    parent.join(name)
}
