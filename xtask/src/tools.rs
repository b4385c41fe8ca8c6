//! Running other programs, and saying what to do when they are missing.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail};

/// The workspace's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_owned)
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// What `.ci/run` puts in the way of the compiler and of rustdoc, to lint and to document while it builds.
const IN_THE_WAY: [&str; 3] = ["RUSTC_WORKSPACE_WRAPPER", "CLIPPY_ARGS", "RUSTDOC"];

/// The cargo that runs this. What it builds is what anybody would get.
pub(crate) fn cargo() -> Command {
    let mut command = cargo_of_the_run();
    for name in IN_THE_WAY {
        command.env_remove(name);
    }
    command
}

/// The cargo that runs this, with all that its caller wants of it: what was built before is not built again.
pub(crate) fn cargo_of_the_run() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs to the end and insists on success.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let shown = shown(command);
    let status = command.status().with_context(|| format!("`{shown}` cannot be started"))?;
    if status.success() { Ok(()) } else { bail!("`{shown}` failed with {status}") }
}

/// Runs to the end and answers what it printed.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let shown = shown(command);
    let output = command.stderr(Stdio::inherit()).output().with_context(|| format!("`{shown}` cannot be started"))?;
    if !output.status.success() {
        bail!("`{shown}` failed with {}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Whether a program is on the path.
pub(crate) fn has(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|directory| directory.join(program).is_file()))
}

/// Installs PostgreSQL, where that is possible; answers whether it is there.
pub(crate) fn ensure_postgresql(package: &str) -> bool {
    has_postgresql() || install(package) && has_postgresql()
}

/// Whether PostgreSQL is installed where Debian puts it.
fn has_postgresql() -> bool {
    std::fs::read_dir("/usr/lib/postgresql")
        .is_ok_and(|versions| versions.flatten().any(|version| version.path().join("bin/initdb").is_file()))
}

/// Installs a Debian package, where that is possible; answers whether the program is there.
pub(crate) fn ensure(program: &str, package: &str) -> bool {
    has(program) || install(package) && has(program)
}

/// Installs a Debian package, where that is possible.
pub(crate) fn install(package: &str) -> bool {
    if !has("apt-get") {
        return false;
    }
    let privileged = |arguments: &[&str]| {
        let mut command = if has("sudo") { Command::new("sudo") } else { Command::new("env") };
        if has("sudo") {
            command.arg("-n");
        }
        command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]).args(arguments).stdout(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    eprintln!("installing {package} ...");
    let arguments = ["install", "-y", "-q", package];
    privileged(&arguments) || privileged(&["update", "-q"]) && privileged(&arguments)
}
