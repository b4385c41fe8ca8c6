//! `cargo xtask steps`: every step as a component.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::Context as _;
use serde_json::Value;

use crate::tools::{self, cargo, output, root, target};

/// A crate that becomes a component.
pub(crate) struct StepPackage {
    /// Its name.
    pub(crate) package: String,
    /// Its directory's name.
    pub(crate) name: String,
}

impl StepPackage {
    /// The component that `build` makes.
    pub(crate) fn component(&self) -> PathBuf {
        target().join("wasm32-wasip2/step").join(format!("{}.wasm", self.package.replace('-', "_")))
    }
}

/// All of them: the workspace's members below `steps/` that are built as a `cdylib`, the one that attacks the host in its
/// tests, and the one whose outcome nobody knows there.
pub(crate) fn packages() -> anyhow::Result<Vec<StepPackage>> {
    let text = output(cargo().args(["metadata", "--no-deps", "--format-version=1"]))?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata is malformed")?;
    let places = [root().join("steps"), root().join("tests/hostile"), root().join("tests/ticket")];
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let manifest = PathBuf::from(package["manifest_path"].as_str().unwrap_or_default());
        let Some(directory) =
            manifest.parent().filter(|directory| places.iter().any(|place| directory.starts_with(place)))
        else {
            continue;
        };
        let is_component = package["targets"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|target| target["kind"].to_string().contains("cdylib"));
        if is_component {
            let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let package = package["name"].as_str().unwrap_or_default().to_owned();
            found.push(StepPackage { package, name });
        }
    }
    Ok(found)
}

/// Adds the target that components are built for, when rustup has it not.
pub(crate) fn ensure_target() -> anyhow::Result<()> {
    let installed = Command::new("rustup")
        .current_dir(root())
        .args(["target", "list", "--installed"])
        .stderr(Stdio::null())
        .output();
    match installed {
        Ok(list) if String::from_utf8_lossy(&list.stdout).lines().any(|line| line == "wasm32-wasip2") => Ok(()),
        Ok(_) => tools::run(Command::new("rustup").current_dir(root()).args(["target", "add", "wasm32-wasip2"])),
        // A toolchain without rustup may have the target; the build says so if not.
        Err(_) => Ok(()),
    }
}

/// Builds them all.
pub(crate) fn build() -> anyhow::Result<Vec<StepPackage>> {
    ensure_target()?;
    let packages = packages()?;
    let mut command = cargo();
    command.args(["build", "--profile", "step", "--target", "wasm32-wasip2"]);
    for step in &packages {
        command.args(["-p", &step.package]);
    }
    tools::run(&mut command)?;
    Ok(packages)
}

/// The command.
pub(crate) fn run() -> anyhow::Result<()> {
    for step in build()? {
        let path = step.component();
        let size = std::fs::metadata(&path).with_context(|| format!("{} was not built", path.display()))?.len();
        println!("{:<24} {:>5} kB  {}", step.name, size / 1000, path.display());
    }
    Ok(())
}
