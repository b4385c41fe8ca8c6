//! `fettle step build`: the same bytes from the same sources, and a record of both.

use std::{
    fs,
    path::{Path, PathBuf},
};

use fettle_cli::author::{provenance, record, sbom};
use serde_json::{Value, json as value};

use super::{fail, fettle, json, make, program, root, run};

/// A crate without dependencies: a component, if no step.
fn small(parent: &Path, name: &str, code: &str) -> PathBuf {
    let directory = parent.join(name);
    fs::create_dir_all(directory.join("src")).unwrap();
    fs::copy(root().join("rust-toolchain.toml"), directory.join("rust-toolchain.toml")).unwrap();
    let manifest = "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n\
                    [lib]\ncrate-type = [\"cdylib\"]\n[profile.step]\ninherits = \"release\"\n";
    fs::write(directory.join("Cargo.toml"), manifest).unwrap();
    fs::write(directory.join("Cargo.lock"), "version = 4\n\n[[package]]\nname = \"small\"\nversion = \"0.1.0\"\n")
        .unwrap();
    fs::write(directory.join("src/lib.rs"), code).unwrap();
    directory
}

/// Tells where it was built.
const LEAKS: &str =
    "#[unsafe(no_mangle)]\npub extern \"C\" fn place() -> *const u8 { env!(\"CARGO_MANIFEST_DIR\").as_ptr() }\n";
/// Has the path of its file in it, as every panic does.
const PANICS: &str = "#[unsafe(no_mangle)]\npub extern \"C\" fn index(at: usize) -> u8 {\n    \
                      std::panic::Location::caller().file().as_bytes()[at]\n}\n";

fn build(directory: &Path, more: &[&str]) -> Value {
    json(fettle(directory, &[&["step", "build", "--json"], more].concat()))
}

fn git(directory: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"];
    run(program("git", directory, &[&identity, arguments].concat()));
}

/// What cargo fetched before, under another path.
fn cargo_home(parent: &Path) -> PathBuf {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.unwrap_or_else(|| Path::new(&std::env::var_os("HOME").unwrap()).join(".cargo"));
    let moved = parent.join("another-cargo-home");
    fs::create_dir(&moved).unwrap();
    for entry in fs::read_dir(home).unwrap().map(Result::unwrap) {
        std::os::unix::fs::symlink(entry.path(), moved.join(entry.file_name())).unwrap();
    }
    moved
}

#[test]
fn two_builds_of_one_commit_in_two_places_give_the_same_bytes() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = make(one.path(), "same-everywhere", &["--capability", "files", "--capability", "exec"]);
    git(&first, &["init", "--quiet"]);
    git(&first, &["remote", "add", "origin", "https://zaphod:hunter2@git.example.com/acme/same"]);
    git(&first, &["add", "--all"]);
    git(&first, &["commit", "--quiet", "--message", "One."]);
    let second = other.path().join("a/much/longer/way/to/it");
    fs::create_dir_all(second.parent().unwrap()).unwrap();
    git(other.path(), &["clone", "--quiet", first.to_str().unwrap(), second.to_str().unwrap()]);
    git(&second, &["remote", "set-url", "origin", "https://bob@git.example.com/acme/same"]);
    let here = build(&first, &[]);
    // Another machine says other things in its environment, and keeps sources elsewhere.
    let mut there = fettle(&second, &["step", "build", "--json"]);
    there.env("RUSTFLAGS", "-Copt-level=0").env("CARGO_PROFILE_STEP_LTO", "false").env("USER", "bob");
    there.env("CARGO_HOME", cargo_home(other.path()));
    let there = json(there);
    assert_eq!(here["digest"], there["digest"]);
    assert_eq!(here["commit"], there["commit"]);
    let read = |built: &Value, name: &str| fs::read_to_string(built[name].as_str().unwrap()).unwrap();
    for document in ["sbom", "provenance"] {
        assert_eq!(read(&here, document), read(&there, document));
        nothing_of_this_machine(&read(&here, document), &[&first, one.path(), &root()]);
    }
    what_is_known(&here, &read(&here, "sbom"), &read(&here, "provenance"));
    records_are_of_one_component(Path::new(here["path"].as_str().unwrap()), &here);
}

fn nothing_of_this_machine(document: &str, paths: &[&Path]) {
    let user = std::env::var("USER").ok().filter(|user| user.len() > 3);
    let paths = paths.iter().map(|path| path.to_str().unwrap().to_owned());
    for private in paths
        .chain(std::env::var("HOME").ok().filter(|home| home != "/"))
        .chain(user)
        .chain(["zaphod".to_owned(), "hunter2".to_owned()])
    {
        assert!(!document.contains(&private), "`{private}` is in:\n{document}");
    }
}

fn what_is_known(built: &Value, bom: &str, origin: &str) {
    let digest: fettle_model::digest::Digest = built["digest"].as_str().unwrap().parse().unwrap();
    let (of, crates) = sbom::read(bom.as_bytes()).unwrap();
    assert_eq!(of, digest);
    assert!(crates > 10, "{bom}");
    let bom: Value = serde_json::from_str(bom).unwrap();
    assert_eq!((&bom["bomFormat"], &bom["specVersion"]), (&value!("CycloneDX"), &value!("1.5")));
    let components = bom["components"].as_array().unwrap();
    let named = |name: &str| components.iter().find(|component| component["name"] == name).unwrap();
    let serde = named("serde_json");
    assert_eq!(serde["scope"], "required");
    assert!(serde["purl"].as_str().unwrap().starts_with("pkg:cargo/serde_json@1."), "{serde}");
    assert_eq!(serde["hashes"][0]["content"].as_str().unwrap().len(), 64);
    assert_eq!(named("serde_derive")["scope"], "excluded");
    assert_eq!(named("fettle-step")["licenses"][0]["expression"], "Apache-2.0");
    let origin: Value = serde_json::from_str(origin).unwrap();
    assert_eq!(provenance::byproduct(&origin, "component"), Some(digest));
    let definition = &origin["buildDefinition"];
    let source = value!({ "uri": "git+https://git.example.com/acme/same", "digest": { "gitCommit": built["commit"] } });
    assert_eq!(definition["externalParameters"]["source"], source);
    assert_eq!(definition["resolvedDependencies"][0], source);
    assert_eq!(definition["resolvedDependencies"][1]["name"], "Cargo.lock");
    assert_eq!(origin["runDetails"]["builder"]["id"], provenance::LOCAL_BUILDER);
}

/// What is beside a component is believed only when it is of that component.
fn records_are_of_one_component(component: &Path, built: &Value) {
    let digest = built["digest"].as_str().unwrap().parse().unwrap();
    assert!(record::Record::beside(component, digest).unwrap().is_some());
    let other = fettle_model::digest::Digest::of(b"another");
    let error = record::Record::beside(component, other).unwrap_err().to_string();
    assert!(error.contains("not of sha256:"), "{error}");
    let (bom, origin) = record::paths(component);
    let whole = fs::read_to_string(&bom).unwrap();
    fs::write(&bom, whole.replacen("required", "excluded", 1)).unwrap();
    let error = record::Record::beside(component, digest).unwrap_err().to_string();
    assert!(error.contains("not the provenance of the sbom"), "{error}");
    fs::write(&bom, whole).unwrap();
    fs::remove_file(&origin).unwrap();
    assert!(record::Record::beside(component, digest).is_err(), "half a record is believed");
    fs::remove_file(&bom).unwrap();
    assert!(record::Record::beside(component, digest).unwrap().is_none());
}

#[test]
fn what_is_built_otherwise_elsewhere_is_found() {
    let parent = tempfile::tempdir().unwrap();
    let leaks = small(parent.path(), "leaks", LEAKS);
    let (code, error) = fail(fettle(&leaks, &["step", "build", "--check-reproducible"]));
    assert_eq!(code, 3, "{error}");
    assert!(error.contains("in another directory, from byte"), "{error}");
    assert!(error.contains("warning: the component names") && error.contains("leaks of this machine"), "{error}");
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "the copy is still there");
    // What only the compiler would tell is the same; that it is no step is found afterwards.
    let panics = small(parent.path(), "panics", PANICS);
    let (_, error) = fail(fettle(&panics, &["step", "build", "--check-reproducible"]));
    assert!(error.contains("is no step that can be published") && !error.contains("warning"), "{error}");
}

#[test]
fn a_lock_file_that_is_missing_or_stale_is_an_error_that_says_what_to_do() {
    let parent = tempfile::tempdir().unwrap();
    let step = small(parent.path(), "small", PANICS);
    let lock = step.join("Cargo.lock");
    let kept = fs::read_to_string(&lock).unwrap();
    fs::write(&lock, kept.replace("0.1.0", "0.2.0")).unwrap();
    let (code, error) = fail(fettle(&step, &["step", "build"]));
    assert_eq!(code, 1, "{error}");
    assert!(error.contains("does not fit Cargo.toml") && error.contains("cargo update --workspace"), "{error}");
    fs::remove_file(&lock).unwrap();
    let (_, error) = fail(fettle(&step, &["step", "build"]));
    assert!(error.contains("has no Cargo.lock") && error.contains("cargo generate-lockfile"), "{error}");
    assert!(!lock.exists() && !step.join("target").exists(), "it was built all the same");
}

#[test]
fn changes_that_are_not_committed_are_not_passed_off_as_the_commit() {
    let parent = tempfile::tempdir().unwrap();
    let step = make(parent.path(), "changed", &[]);
    std::os::unix::fs::symlink(super::built_before(), step.join("target")).unwrap();
    git(&step, &["init", "--quiet"]);
    git(&step, &["add", "--all"]);
    git(&step, &["commit", "--quiet", "--message", "One."]);
    fs::write(step.join("src/more.rs"), "").unwrap();
    let built = build(&step, &[]);
    assert_eq!(built["commit"], Value::Null);
    let origin: Value =
        serde_json::from_str(&fs::read_to_string(built["provenance"].as_str().unwrap()).unwrap()).unwrap();
    let parameters = &origin["buildDefinition"]["externalParameters"];
    assert_eq!((&parameters["uncommittedChanges"], &parameters["source"]), (&value!(true), &value!({})));
}
