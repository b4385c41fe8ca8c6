//! Who may depend on whom.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::{
    report::{holds, holds_except},
    source::{self, is_within, product},
};

/// What `cargo metadata` says, as far as it matters here. The crate `cargo_metadata` would turn on a
/// feature of serde_json for the whole workspace, and so for what is shipped.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
    features: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// None for a normal dependency, else `dev` or `build`.
    kind: Option<String>,
    features: Vec<String>,
}

#[expect(clippy::disallowed_methods, reason = "a test asks cargo; nothing of this runs on a node")]
fn members() -> Vec<Package> {
    let mut cargo = std::process::Command::new(env!("CARGO"));
    let answer =
        cargo.current_dir(source::root()).args(["metadata", "--no-deps", "--format-version=1"]).output().unwrap();
    assert!(answer.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&answer.stderr));
    serde_json::from_slice::<Metadata>(&answer.stdout).unwrap().packages
}

/// Members outside `allowed` that depend on a crate whose name is one of `crates` or starts with one
/// and a dash.
fn others(crates: &[&str], allowed: &[&str]) -> Vec<String> {
    let is_one = |name: &str| crates.iter().any(|one| name == *one || name.starts_with(&format!("{one}-")));
    let mut found = Vec::new();
    let mut users = BTreeSet::new();
    for package in members() {
        for dependency in package.dependencies.iter().filter(|dependency| is_one(&dependency.name)) {
            users.insert(package.name.clone());
            if !allowed.contains(&package.name.as_str()) {
                found.push(format!("{}: depends on {}", package.manifest_path, dependency.name));
            }
        }
    }
    assert!(!users.is_empty(), "nobody depends on {crates:?}; correct the test");
    found
}

#[test]
fn only_the_host_depends_on_wasmtime() {
    holds(
        "only `host` knows the sandbox's engine",
        "put what needs it into host/src/sandbox, and use that",
        &others(&["wasmtime"], &["fettle-host"]),
    );
}

#[test]
fn only_stores_and_the_hosts_journal_depend_on_sqlx() {
    let fix = "add a verb to a trait of plane/store, or to host/src/executor/journal";
    holds(
        "only the store crates and the host's journal know a database",
        fix,
        &others(&["sqlx"], &["fettle-store-rows", "fettle-store-sqlite", "fettle-store-postgres", "fettle-host"]),
    );
    let elsewhere: Vec<String> = product(&["host/src"])
        .iter()
        .filter(|source| !source.path.starts_with("host/src/executor/journal/"))
        .flat_map(|source| {
            let names = source.names();
            let used = names.paths.into_iter().filter(|path| is_within(&path.what, "sqlx"));
            used.map(|path| format!("{}:{}: names `{}`", source.path, path.line, path.what)).collect::<Vec<_>>()
        })
        .collect();
    holds("in the host, only the journal knows a database", fix, &elsewhere);
}

#[test]
fn only_supply_depends_on_sigstore_and_oci_client() {
    holds(
        "only `supply` knows signatures and registries",
        "add what is missing to fettle-supply, and use that",
        &others(&["sigstore", "oci-client", "oci-spec"], &["fettle-supply"]),
    );
}

#[test]
fn only_the_sdk_depends_on_wit_bindgen() {
    holds(
        "bindings for steps exist in steps/sdk only",
        "use what fettle-step offers, or add it there",
        &others(&["wit-bindgen"], &["fettle-step"]),
    );
}

/// Everything `model` may depend on: crates that compute, and reach nothing.
const PURE: [&str; 17] = [
    "base64",
    "cel",
    "hex",
    "humantime",
    "insta",
    "ipnet",
    "jsonschema",
    "proptest",
    "regex",
    "serde",
    "serde_json",
    "serde_json_canonicalizer",
    "serde_norway",
    "serde_path_to_error",
    "sha2",
    "thiserror",
    "url",
];

#[test]
fn the_model_depends_on_pure_crates_only() {
    let found: Vec<(String, String)> = members()
        .iter()
        .filter(|package| package.name.as_str() == "fettle-model")
        .flat_map(|package| &package.dependencies)
        .map(|dependency| (dependency.name.clone(), format!("model/Cargo.toml: depends on {}", dependency.name)))
        .collect();
    holds_except(
        "`model` is pure: no runtime, no database, no sandbox, no clock, no I/O",
        "pass what you need as a parameter; a crate that only computes may join the list in this file",
        &found,
        &PURE,
    );
}

/// Which rooms a room may use. What is not here is absent on purpose.
fn map() -> BTreeMap<&'static str, &'static [&'static str]> {
    BTreeMap::from([
        ("fettle-model", &[] as &[_]),
        ("fettle-crash", &[]),
        ("fettle-wire", &["fettle-model"]),
        ("fettle-identity", &[]),
        ("fettle-mutation", &[]),
        ("fettle-egress", &["fettle-model", "fettle-mutation"]),
        ("fettle-openid", &["fettle-egress"]),
        ("fettle-credentials", &["fettle-egress", "fettle-model"]),
        ("fettle-telemetry", &[]),
        ("fettle-supply", &["fettle-egress", "fettle-model", "fettle-mutation"]),
        ("fettle-step", &[]),
        ("fettle-store", &["fettle-model"]),
        ("fettle-store-rows", &["fettle-model", "fettle-store"]),
        ("fettle-store-sqlite", &["fettle-model", "fettle-store", "fettle-store-rows", "fettle-crash"]),
        ("fettle-store-postgres", &["fettle-model", "fettle-store", "fettle-store-rows", "fettle-crash"]),
        ("fettle-postgres-cluster", &[]),
        (
            "fettle-host",
            &[
                "fettle-egress",
                "fettle-identity",
                "fettle-model",
                "fettle-mutation",
                "fettle-wire",
                "fettle-supply",
                "fettle-crash",
                "fettle-telemetry",
            ],
        ),
        (
            "fettle-plane",
            &[
                "fettle-credentials",
                "fettle-egress",
                "fettle-identity",
                "fettle-model",
                "fettle-openid",
                "fettle-wire",
                "fettle-supply",
                "fettle-store",
                "fettle-store-sqlite",
                "fettle-store-postgres",
                "fettle-telemetry",
            ],
        ),
        ("fettle-cli", &["fettle-egress", "fettle-model", "fettle-supply", "fettle-host", "fettle-plane"]),
        (
            "fettle-tests",
            &[
                "fettle-identity",
                "fettle-model",
                "fettle-supply",
                "fettle-host",
                "fettle-plane",
                "fettle-postgres-cluster",
                "fettle-store",
                "fettle-store-postgres",
                "fettle-store-sqlite",
                "fettle-telemetry",
                "fettle-wire",
            ],
        ),
        ("fettle-invariants", &[]),
        ("fettle-lease-model", &[]),
        (
            "fettle-simulation",
            &[
                "fettle-identity",
                "fettle-model",
                "fettle-host",
                "fettle-plane",
                "fettle-store",
                "fettle-store-sqlite",
                "fettle-supply",
            ],
        ),
        ("fettle-nvml-scenario", &[]),
        ("xtask", &[]),
    ])
}

#[test]
fn rooms_use_each_other_only_as_the_map_says() {
    let map = map();
    let mut findings = Vec::new();
    for package in members() {
        let name = package.name.as_str();
        let is_step = name.starts_with("fettle-step-");
        let allowed: &[&str] = match map.get(name) {
            Some(allowed) => allowed,
            None if is_step => &["fettle-step"],
            None => {
                findings.push(format!("{}: is not on the map", package.manifest_path));
                continue;
            }
        };
        let uses = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind.as_deref() != Some("dev") && dependency.name.starts_with("fettle-"));
        findings.extend(
            uses.filter(|dependency| !allowed.contains(&dependency.name.as_str()))
                .map(|dependency| format!("{}: uses {}", package.manifest_path, dependency.name)),
        );
    }
    holds(
        "host and plane do not know each other, steps know the SDK only, and `model` knows nobody",
        "speak through fettle-model or fettle-wire; a new room is entered in the map in this file and in ARCHITECTURE.md",
        &findings,
    );
}

#[test]
fn every_member_keeps_the_lints_of_the_workspace() {
    let findings: Vec<String> = members()
        .iter()
        .map(|package| package.manifest_path.clone())
        .filter(|path| !std::fs::read_to_string(path).unwrap().contains("[lints]\nworkspace = true"))
        .collect();
    holds("every member keeps the lints of the workspace", "add `[lints]` with `workspace = true`", &findings);
}

/// Taking protections out is for the tests of the crate that has them: no other crate, no other feature
/// and nothing that ships may turn it on.
#[test]
fn protections_are_taken_out_in_tests_only() {
    const FEATURE: &str = "mutations";
    let mut findings = Vec::new();
    let mut users = 0;
    for package in members() {
        for dependency in package.dependencies.iter().filter(|one| one.features.iter().any(|name| name == FEATURE)) {
            users += 1;
            if dependency.kind.as_deref() != Some("dev") || dependency.name != package.name {
                findings.push(format!("{}: turns it on for {}", package.manifest_path, dependency.name));
            }
        }
        let turns_on = |enabled: &String| enabled.split('/').any(|part| part == FEATURE);
        let by = package.features.iter().filter(|(_, enabled)| enabled.iter().any(turns_on));
        findings.extend(by.map(|(name, _)| format!("{}: feature `{name}` turns it on", package.manifest_path)));
    }
    assert!(users > 0, "nobody tests with `{FEATURE}`; correct the test");
    holds(
        "the feature `mutations` is on only in the tests of the crate that has it",
        "take it out; an attack on a protection is tested in the crate that protects",
        &findings,
    );
}
