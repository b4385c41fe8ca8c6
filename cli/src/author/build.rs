//! Building a component, so that the same sources always give the same bytes.
//!
//! What varies between machines and does not belong to the sources is taken out: directories are renamed
//! in what the compiler writes, variables of the environment are cleared, `Cargo.lock` is taken as it is,
//! and the profile has one codegen unit, no debug information and no incremental state.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
    process::Stdio,
};

use serde::Deserialize;

use super::{
    cargo::{Metadata, Package},
    program::{not_found, program},
    source::Source,
    toolchain::{TARGET, Toolchain},
};
use crate::error::CommandError;

/// The profile that components are built with.
pub const PROFILE: &str = "step";

/// What a build may not decide otherwise, whatever a `Cargo.toml` or a configuration says.
const FIXED: [&str; 4] = [
    "profile.step.codegen-units=1",
    "profile.step.debug=false",
    "profile.step.incremental=false",
    "profile.step.strip=true",
];

/// What cargo is asked for, after `cargo`. Part of the provenance: it names nothing of this machine.
#[must_use]
pub fn arguments(package: &str) -> Vec<String> {
    let mut arguments: Vec<String> =
        ["build", "--locked", "--profile", PROFILE, "--target", TARGET, "--package", package].map(str::to_owned).into();
    arguments.extend(FIXED.iter().flat_map(|setting| ["--config".to_owned(), (*setting).to_owned()]));
    arguments
}

/// A line of cargo's messages, as far as it matters.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    package_id: String,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

/// Builds a package into a component and answers where it is. Everything cargo writes goes to
/// `target_directory`.
///
/// # Errors
/// When cargo cannot build it.
pub async fn build(
    metadata: &Metadata,
    package: &Package,
    toolchain: &Toolchain,
    source: &Source,
    target_directory: &Path,
) -> Result<PathBuf, CommandError> {
    let mut cargo = program("cargo", &metadata.workspace_root);
    cargo.args(arguments(&package.name)).arg("--message-format=json-render-diagnostics");
    cargo.arg("--target-dir").arg(target_directory);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags(metadata, toolchain, target_directory));
    cargo.env("SOURCE_DATE_EPOCH", source.epoch.to_string());
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
    component(&String::from_utf8_lossy(&built.stdout), &package.id).ok_or_else(|| CommandError::Build {
        problem: format!("cargo built {} and made no component of it", package.name),
        fix: "add `[lib] crate-type = [\"cdylib\", \"rlib\"]` to its Cargo.toml".to_owned(),
    })
}

/// The component that cargo says it made of a package.
fn component(messages: &str, package: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Message>(line).ok())
        .filter(|message| message.reason == "compiler-artifact" && message.package_id == package)
        .flat_map(|message| message.filenames)
        .find(|path| path.extension().is_some_and(|ending| ending == "wasm"))
}

/// Flags of the compiler, each after a unit separator. They replace all that variables and configuration
/// files say: those of one machine must not change what is built.
fn flags(metadata: &Metadata, toolchain: &Toolchain, target_directory: &Path) -> OsString {
    let mut flags: Vec<u8> = Vec::new();
    for (from, to) in renamed(metadata, toolchain, target_directory) {
        if !flags.is_empty() {
            flags.push(0x1f);
        }
        flags.extend_from_slice(b"--remap-path-prefix=");
        flags.extend_from_slice(from.as_os_str().as_bytes());
        flags.push(b'=');
        flags.extend_from_slice(to.as_bytes());
    }
    OsString::from_vec(flags)
}

/// Directories of this machine and what they are called in the component. The compiler takes the last
/// that fits, so what is inside another comes after it.
fn renamed(metadata: &Metadata, toolchain: &Toolchain, target_directory: &Path) -> Vec<(PathBuf, String)> {
    let mut renamed = vec![
        (metadata.workspace_root.clone(), "/workspace".to_owned()),
        (target_directory.to_owned(), "/target".to_owned()),
        (toolchain.sysroot.clone(), "/rust".to_owned()),
    ];
    renamed.extend(
        metadata
            .packages
            .iter()
            .map(|package| (package.directory().to_owned(), format!("/{}-{}", package.name, package.version))),
    );
    renamed.sort_by_key(|(from, _)| from.as_os_str().len());
    renamed
}

/// Directories of this machine that a component names all the same.
#[must_use]
pub fn leaks(component: &[u8], metadata: &Metadata, toolchain: &Toolchain, target_directory: &Path) -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let home = home.into_iter().filter(|home| home.as_os_str().len() > 1).map(|home| (home, String::new()));
    let mut found: Vec<PathBuf> = renamed(metadata, toolchain, target_directory)
        .into_iter()
        .chain(home)
        .map(|(directory, _)| directory)
        .filter(|directory| contains(component, directory.as_os_str().as_bytes()))
        .collect();
    found.dedup();
    found
}

fn contains(content: &[u8], part: &[u8]) -> bool {
    !part.is_empty() && content.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_packages_own_component_is_found_among_cargos_messages() {
        let messages = r#"
            {"reason":"compiler-artifact","package_id":"dep","filenames":["/t/libdep.rlib","/t/dep.wasm"]}
            {"reason":"build-script-executed"}
            {"reason":"compiler-artifact","package_id":"a","filenames":["/t/liba.rlib","/t/step/a.wasm"]}
            not json
            {"reason":"build-finished","success":true}"#;
        assert_eq!(component(messages, "a"), Some(PathBuf::from("/t/step/a.wasm")));
        assert_eq!(component(messages, "b"), None);
    }

    #[test]
    fn what_is_inside_another_directory_is_renamed_after_it() {
        let package = |name: &str, path: &str| {
            serde_json::json!({"id": name, "name": name, "version": "1.0.0", "license": null, "description": null,
                "source": null, "manifest_path": format!("{path}/Cargo.toml"), "targets": []})
        };
        let metadata: Metadata = serde_json::from_value(serde_json::json!({
            "packages": [package("inner", "/w/steps/inner"), package("outer", "/w"), package("sdk", "/elsewhere/sdk")],
            "workspace_members": [], "workspace_root": "/w", "target_directory": "/w/target", "resolve": {"nodes": []},
        }))
        .unwrap();
        let toolchain = Toolchain { rustc: String::new(), cargo: String::new(), sysroot: PathBuf::from("/r") };
        let renamed = renamed(&metadata, &toolchain, Path::new("/w/target"));
        let place = |to: &str| renamed.iter().position(|(_, name)| name == to).unwrap();
        assert!(place("/workspace") < place("/inner-1.0.0") && place("/outer-1.0.0") < place("/target"), "{renamed:?}");
        let flags = flags(&metadata, &toolchain, Path::new("/w/target")).into_string().unwrap();
        assert!(flags.contains("--remap-path-prefix=/elsewhere/sdk=/sdk-1.0.0"), "{flags}");
        let leaked = leaks(b"..../elsewhere/sdk/src/lib.rs....", &metadata, &toolchain, Path::new("/w/target"));
        assert_eq!(leaked, [PathBuf::from("/elsewhere/sdk")]);
    }

    #[test]
    fn the_command_names_nothing_of_this_machine() {
        assert!(arguments("a").iter().all(|argument| !argument.contains('/')));
    }
}
