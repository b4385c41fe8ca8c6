//! Packages of npm that tests need, as their lock file says and no others.

use std::{fs, path::Path, process::Command};

use anyhow::Context as _;

use crate::tools;

/// The two files that say which.
const FILES: [&str; 2] = ["package.json", "package-lock.json"];

/// Installs what the lock file in `from` names below `directory`, unless it is there.
pub(crate) fn packages(directory: &Path, from: &Path) -> anyhow::Result<()> {
    let read = |path: &Path| fs::read(path).unwrap_or_default();
    let is_there = |name: &&str| read(&directory.join(name)) == read(&from.join(name));
    if FILES.iter().all(is_there) && directory.join("complete").is_file() {
        return Ok(());
    }
    fs::create_dir_all(directory).with_context(|| format!("{} cannot be made", directory.display()))?;
    for name in FILES {
        fs::copy(from.join(name), directory.join(name)).with_context(|| format!("{name} cannot be copied"))?;
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"]).current_dir(directory);
    tools::run(&mut npm)?;
    fs::write(directory.join("complete"), "").context("the mark cannot be written")
}
