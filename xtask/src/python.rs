//! `cargo xtask python-steps`: steps written in Python, as components.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use anyhow::{Context as _, ensure};

use crate::tools::{self, ensure as installed, install, root, target};

/// A Python module that becomes a component: its name, its directory, and its world.
const STEPS: [Step; 2] = [
    Step {
        component: "json_merge",
        module: "app",
        directory: "examples/python-step",
        world: "example:json-merge/json-merge",
    },
    Step { component: "nosy", module: "nosy", directory: "host/tests/python", world: "testing:nosy/nosy" },
];

struct Step {
    component: &'static str,
    module: &'static str,
    directory: &'static str,
    world: &'static str,
}

/// Where the components are.
fn directory() -> PathBuf {
    target().join("python-steps")
}

/// Builds those that changed, with the tool that `requirements.txt` pins.
pub(crate) fn build() -> anyhow::Result<()> {
    let requirements = root().join("examples/python-step/requirements.txt");
    fs::create_dir_all(directory())?;
    let tool = tool(&requirements)?;
    for step in &STEPS {
        let component = directory().join(format!("{}.wasm", step.component));
        let source = root().join(step.directory);
        let sources = [root().join("wit"), source.clone(), requirements.clone()];
        if is_newer(&component, &sources)? {
            continue;
        }
        let copy = copied(&source, step.component)?;
        let mut command = Command::new(&tool);
        command.arg("--quiet").arg("--wit-path").arg(root().join("wit")).arg("--wit-path").arg(source.join("wit"));
        command.args(["--world", step.world, "componentize", "--python-path"]).arg(&copy);
        tools::run(command.arg(step.module).arg("--output").arg(&component))?;
    }
    Ok(())
}

/// A copy of the modules: building leaves caches beside them.
fn copied(source: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let copy = directory().join(name);
    fs::create_dir_all(&copy)?;
    for entry in fs::read_dir(source)? {
        let path = entry?.path();
        if let (Some(name), Some("py")) = (path.file_name(), path.extension().and_then(|ending| ending.to_str())) {
            fs::copy(&path, copy.join(name))?;
        }
    }
    Ok(copy)
}

/// The tool, in an environment of its own below `target`.
fn tool(requirements: &Path) -> anyhow::Result<PathBuf> {
    environment(&directory().join("environment"), requirements, "componentize-py")
}

/// A program from PyPI in an environment of its own, with what its `requirements.txt` pins; made again when that
/// changes.
pub(crate) fn environment(environment: &Path, requirements: &Path, program: &str) -> anyhow::Result<PathBuf> {
    let tool = environment.join("bin").join(program);
    if tool.is_file() && is_newer(&environment.join("pyvenv.cfg"), &[requirements.to_owned()])? {
        return Ok(tool);
    }
    ensure!(installed("python3", "python3"), "python3 is missing; install it to run {program}");
    let make = || tools::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(environment));
    // Debian has `venv` in a package of its own.
    ensure!(
        make().is_ok() || install("python3-venv") && make().is_ok(),
        "`python3 -m venv` does not work; install python3-venv"
    );
    let mut pip = Command::new(environment.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:"]);
    tools::run(pip.arg("--requirement").arg(requirements))
        .with_context(|| format!("{program} cannot be installed; is there a way to PyPI?"))?;
    Ok(tool)
}

/// Whether a file is newer than all of these, and all files below them.
fn is_newer(made: &Path, sources: &[PathBuf]) -> anyhow::Result<bool> {
    let Ok(made) = fs::metadata(made).and_then(|metadata| metadata.modified()) else { return Ok(false) };
    let mut newest = SystemTime::UNIX_EPOCH;
    for source in sources {
        newest = newest.max(last_change(source)?);
    }
    Ok(newest < made)
}

fn last_change(path: &Path) -> anyhow::Result<SystemTime> {
    let metadata = fs::metadata(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let mut newest = metadata.modified()?;
    if metadata.is_dir() {
        newest = SystemTime::UNIX_EPOCH;
        for entry in fs::read_dir(path)? {
            let path = entry?.path();
            newest = newest.max(last_change(&path)?);
        }
    }
    Ok(newest)
}

/// The command.
pub(crate) fn run() -> anyhow::Result<()> {
    build()?;
    for step in &STEPS {
        let path = directory().join(format!("{}.wasm", step.component));
        let size = fs::metadata(&path).with_context(|| format!("{} was not built", path.display()))?.len();
        println!("{:<24} {:>5} kB  {}", step.component, size / 1000, path.display());
    }
    tools::run(
        Command::new("python3")
            .current_dir(root().join("examples/python-step"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .args(["-m", "unittest", "--quiet"]),
    )
}
