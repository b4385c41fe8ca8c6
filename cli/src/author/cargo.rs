//! What cargo knows of a crate: its workspace, its packages, what depends on what.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{
    program::{output, program},
    toolchain::TARGET,
};
use crate::error::CommandError;

/// What `cargo metadata` says, as far as it matters here. The crate `cargo_metadata` would turn on a
/// feature of serde_json for the whole workspace.
#[derive(Clone, Debug, Deserialize)]
pub struct Metadata {
    /// Every package that is built for the target, and what builds it.
    pub packages: Vec<Package>,
    /// Ids of the workspace's own packages.
    pub workspace_members: Vec<String>,
    /// Where the workspace is.
    pub workspace_root: PathBuf,
    /// Where cargo writes.
    pub target_directory: PathBuf,
    /// What depends on what.
    pub resolve: Resolve,
}

/// A package.
#[derive(Clone, Debug, Deserialize)]
pub struct Package {
    /// Unique; holds a path where the package is in one.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// An SPDX expression, where it says one.
    pub license: Option<String>,
    /// One sentence.
    pub description: Option<String>,
    /// Where it comes from; absent for a path.
    pub source: Option<String>,
    /// Its `Cargo.toml`.
    pub manifest_path: PathBuf,
    /// What is built of it.
    pub targets: Vec<Target>,
}

/// Something that is built of a package.
#[derive(Clone, Debug, Deserialize)]
pub struct Target {
    /// `lib`, `cdylib`, `proc-macro`, `custom-build` ...
    pub kind: Vec<String>,
}

/// The graph of packages.
#[derive(Clone, Debug, Deserialize)]
pub struct Resolve {
    /// One per package.
    pub nodes: Vec<Node>,
}

/// A package in the graph.
#[derive(Clone, Debug, Deserialize)]
pub struct Node {
    /// The package.
    pub id: String,
    /// What it depends on.
    pub deps: Vec<Dependency>,
}

/// An edge of the graph.
#[derive(Clone, Debug, Deserialize)]
pub struct Dependency {
    /// The package that is depended on.
    pub pkg: String,
    /// How.
    pub dep_kinds: Vec<DependencyKind>,
}

/// How a package is depended on.
#[derive(Clone, Debug, Deserialize)]
pub struct DependencyKind {
    /// None for a normal dependency, else `dev` or `build`.
    pub kind: Option<String>,
}

impl Metadata {
    /// Asks cargo, with `Cargo.lock` as it is.
    ///
    /// # Errors
    /// When there is no crate or cargo cannot read it; says what to do when `Cargo.lock` is missing or
    /// does not fit.
    pub async fn locked(directory: &Path) -> Result<Self, CommandError> {
        let root = workspace_root(directory).await?;
        if !root.join("Cargo.lock").is_file() {
            return Err(CommandError::Build {
                problem: format!("{} has no Cargo.lock, so nobody can say what would be built", root.display()),
                fix: "run `cargo generate-lockfile` there, and commit Cargo.lock".to_owned(),
            });
        }
        let mut cargo = program("cargo", directory);
        cargo.args(["metadata", "--locked", "--format-version=1", "--filter-platform", TARGET]);
        let answer = output(cargo, "cargo").await?;
        let words = String::from_utf8_lossy(&answer.stderr);
        if !answer.status.success() {
            return Err(refused(&root, &words));
        }
        serde_json::from_slice(&answer.stdout).map_err(|error| CommandError::Build {
            problem: format!("`cargo metadata` says something that nobody understands: {error}"),
            fix: "use a cargo that this version of fettle knows, 1.95 or near".to_owned(),
        })
    }

    /// The package that is a step: the one that is named, or the only one of the directory.
    ///
    /// # Errors
    /// When it is not clear which, or it does not become a component.
    pub fn step(&self, directory: &Path, name: Option<&str>) -> Result<&Package, CommandError> {
        let members = self.packages.iter().filter(|package| self.workspace_members.contains(&package.id));
        let here = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
        let found: Vec<&Package> = match name {
            Some(name) => members.filter(|package| package.name == name).collect(),
            None => members.filter(|package| package.directory() == here).collect(),
        };
        let [package] = found.as_slice() else {
            let problem = match name {
                Some(name) => format!("the workspace of {} has no package `{name}`", directory.display()),
                None => format!("{} is no package", directory.display()),
            };
            let fix = "name the directory of one package, or a package of the workspace with -p".to_owned();
            return Err(CommandError::Build { problem, fix });
        };
        if package.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "cdylib")) {
            return Ok(package);
        }
        Err(CommandError::Build {
            problem: format!("the package {} has no component", package.name),
            fix: "add `[lib] crate-type = [\"cdylib\", \"rlib\"]` to its Cargo.toml".to_owned(),
        })
    }

    /// Packages that `root` needs, in the order of their names: true for those that only build it.
    #[must_use]
    pub fn needed_by(&self, root: &Package) -> BTreeMap<(&str, &str, &str), (&Package, bool)> {
        let packages: BTreeMap<&str, &Package> =
            self.packages.iter().map(|package| (package.id.as_str(), package)).collect();
        let nodes: BTreeMap<&str, &Node> = self.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
        let mut only_builds: BTreeMap<&str, bool> = BTreeMap::new();
        let mut open = vec![(root.id.as_str(), false)];
        while let Some((id, builds)) = open.pop() {
            // What is in the component once stays so, however else it is reached.
            match only_builds.get(id) {
                Some(known) if !*known || builds => continue,
                Some(_) | None => only_builds.insert(id, builds),
            };
            for dependency in nodes.get(id).into_iter().flat_map(|node| &node.deps) {
                let kinds = dependency.dep_kinds.iter().filter(|kind| kind.kind.as_deref() != Some("dev"));
                for kind in kinds {
                    let is_macro = packages.get(dependency.pkg.as_str()).is_some_and(|package| package.is_macro());
                    open.push((&dependency.pkg, builds || is_macro || kind.kind.is_some()));
                }
            }
        }
        only_builds
            .into_iter()
            .filter(|(id, _)| *id != root.id)
            .filter_map(|(id, builds)| packages.get(id).map(|package| (package.key(), (*package, builds))))
            .collect()
    }

    /// What a package depends on directly, tests aside.
    #[must_use]
    pub fn dependencies_of(&self, package: &Package) -> Vec<&Package> {
        let node = self.resolve.nodes.iter().find(|node| node.id == package.id);
        let dependencies = node.into_iter().flat_map(|node| &node.deps);
        let ids = dependencies
            .filter(|dependency| dependency.dep_kinds.iter().any(|kind| kind.kind.as_deref() != Some("dev")))
            .map(|dependency| dependency.pkg.as_str());
        ids.filter_map(|id| self.packages.iter().find(|package| package.id == id)).collect()
    }
}

impl Package {
    /// Its directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("/"))
    }

    /// Name, version, where it comes from.
    #[must_use]
    pub fn key(&self) -> (&str, &str, &str) {
        (&self.name, &self.version, self.source.as_deref().unwrap_or_default())
    }

    fn is_macro(&self) -> bool {
        self.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "proc-macro"))
    }
}

/// Formats a crate as its toolchain does. Where that has no formatter the crate stays as it is: it works.
pub async fn format(directory: &Path) {
    let mut cargo = program("cargo", directory);
    cargo.arg("fmt");
    let _ = output(cargo, "cargo").await;
}

/// Makes a crate's `Cargo.lock`, from the versions of another one where it names them.
///
/// # Errors
/// When cargo cannot: then there is no lock file.
pub async fn lock(directory: &Path, from: Option<&Path>) -> Result<(), CommandError> {
    let path = directory.join("Cargo.lock");
    if let Some(from) = from {
        fs::copy(from, &path).map_err(|source| CommandError::Write { path: path.clone(), source })?;
    }
    let mut cargo = program("cargo", directory);
    // Resolves, and forgets what the crate does not need.
    cargo.args(["metadata", "--format-version=1"]);
    let answer = output(cargo, "cargo").await?;
    if answer.status.success() {
        return Ok(());
    }
    let _ = fs::remove_file(&path);
    Err(refused(directory, &String::from_utf8_lossy(&answer.stderr)))
}

async fn workspace_root(directory: &Path) -> Result<PathBuf, CommandError> {
    let mut cargo = program("cargo", directory);
    cargo.args(["locate-project", "--workspace", "--message-format=plain"]);
    let answer = output(cargo, "cargo").await?;
    if !answer.status.success() {
        return Err(refused(directory, &String::from_utf8_lossy(&answer.stderr)));
    }
    let manifest = PathBuf::from(String::from_utf8_lossy(&answer.stdout).trim());
    Ok(manifest.parent().unwrap_or(directory).to_owned())
}

/// Why cargo does not build with the lock file as it is. Its words are the only way to tell.
fn refused(root: &Path, words: &str) -> CommandError {
    if words.contains("--locked") {
        return CommandError::Build {
            problem: format!("Cargo.lock of {} does not fit Cargo.toml any more", root.display()),
            fix: "run `cargo update --workspace` there, look at what changed, and commit Cargo.lock".to_owned(),
        };
    }
    CommandError::Build {
        problem: format!("cargo cannot read the crate: {}", words.trim().trim_start_matches("error: ")),
        fix: "correct it; `cargo metadata --locked` says the same".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// root -> normal -> deep, root -> macro -> deep-of-macro, root -(build)-> both -> ..., root -(dev)-> tests
    fn metadata() -> Metadata {
        let package = |name: &str, kind: &str| {
            json!({"id": name, "name": name, "version": "1.0.0", "license": null, "description": null, "source": null,
                "manifest_path": format!("/w/{name}/Cargo.toml"), "targets": [{"kind": [kind]}]})
        };
        let node = |name: &str, deps: &[(&str, Option<&str>)]| {
            let deps: Vec<_> =
                deps.iter().map(|(name, kind)| json!({"pkg": name, "dep_kinds": [{"kind": kind}]})).collect();
            json!({"id": name, "deps": deps})
        };
        serde_json::from_value(json!({
            "packages": [package("root", "cdylib"), package("normal", "lib"), package("macro", "proc-macro"),
                package("shared", "lib"), package("helper", "lib"), package("tests", "lib")],
            "workspace_members": ["root", "normal"], "workspace_root": "/w", "target_directory": "/w/target",
            "resolve": {"nodes": [
                node("root", &[("macro", None), ("helper", Some("build")), ("normal", None), ("tests", Some("dev"))]),
                node("macro", &[("shared", None)]), node("normal", &[("shared", None)]), node("shared", &[]),
                node("helper", &[]), node("tests", &[])]},
        }))
        .unwrap()
    }

    #[test]
    fn what_is_in_the_component_is_told_from_what_only_builds_it() {
        let metadata = metadata();
        let needed = metadata.needed_by(metadata.step(Path::new("/w/root"), Some("root")).unwrap());
        let found: Vec<(&str, bool)> =
            needed.values().map(|(package, builds)| (package.name.as_str(), *builds)).collect();
        assert_eq!(found, [("helper", true), ("macro", true), ("normal", false), ("shared", false)]);
    }

    #[test]
    fn a_step_is_one_package_that_becomes_a_component() {
        let metadata = metadata();
        for (name, fix) in [("normal", "crate-type"), ("none", "-p")] {
            let error = metadata.step(Path::new("/w"), Some(name)).unwrap_err();
            assert!(error.help().unwrap().contains(fix), "{error}");
        }
        assert!(metadata.step(Path::new("/w"), None).is_err());
    }
}
