//! Where a component comes from: SLSA provenance v1, of which the same build gives the same text. It says
//! what was built of what and how, and nothing of the machine: no time, no user, no path.

use fettle_model::digest::Digest;
use serde_json::{Value, json};

use super::{
    build::{self, PROFILE},
    source::Source,
    toolchain::{TARGET, Toolchain},
};

/// The predicate of an attestation that holds one.
pub const PREDICATE_TYPE: &str = "https://slsa.dev/provenance/v1";
/// How the build is done; what the parameters mean is in docs/reference/attestations.md.
pub const BUILD_TYPE: &str = "urn:fettle:build-type:step:v1";
/// Who builds, when nobody says so: somebody's own machine, for which nobody vouches.
pub const LOCAL_BUILDER: &str = "urn:fettle:builder:local";

/// What a build made.
#[derive(Clone, Debug)]
pub struct Built<'a> {
    /// The package that became a component.
    pub package: &'a str,
    /// The component.
    pub component: Digest,
    /// Its bill of materials.
    pub sbom: Digest,
    /// What it was built with.
    pub toolchain: &'a Toolchain,
    /// What it was built of.
    pub source: &'a Source,
    /// Who built it.
    pub builder: &'a str,
}

/// The provenance of a component, as the predicate of a statement.
#[must_use]
pub fn predicate(built: &Built<'_>) -> Value {
    let Built { package, component, sbom, toolchain, source, builder } = built;
    let command: Vec<String> = std::iter::once("cargo".to_owned()).chain(build::arguments(package)).collect();
    let mut dependencies = vec![json!({ "name": "Cargo.lock", "digest": { "sha256": source.lock.hex() } })];
    let mut origin = serde_json::Map::new();
    if let Some(repository) = &source.repository {
        origin.insert("uri".to_owned(), json!(repository));
    }
    if let Some(commit) = &source.commit {
        origin.insert("digest".to_owned(), json!({ "gitCommit": commit }));
    }
    if !origin.is_empty() {
        dependencies.insert(0, Value::Object(origin.clone()));
    }
    json!({
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {
                "source": origin, "package": package, "profile": PROFILE, "target": TARGET,
                "uncommittedChanges": source.changed,
            },
            "internalParameters": {
                "command": command, "rustc": toolchain.rustc, "cargo": toolchain.cargo,
                "sourceDateEpoch": source.epoch,
            },
            "resolvedDependencies": dependencies,
        },
        "runDetails": {
            "builder": { "id": builder, "version": { "fettle": env!("CARGO_PKG_VERSION") } },
            "byproducts": [
                { "name": "component", "mediaType": "application/wasm", "digest": { "sha256": component.hex() } },
                { "name": "sbom", "mediaType": "application/vnd.cyclonedx+json", "digest": { "sha256": sbom.hex() } },
            ],
        },
    })
}

/// The digest that a provenance gives a byproduct: `component` or `sbom`.
#[must_use]
pub fn byproduct(predicate: &Value, name: &str) -> Option<Digest> {
    let byproducts = predicate.pointer("/runDetails/byproducts")?.as_array()?;
    let one = byproducts.iter().find(|byproduct| byproduct["name"] == name)?;
    format!("sha256:{}", one.pointer("/digest/sha256")?.as_str()?).parse().ok()
}

/// What a provenance says, in short: of which commit, and by whom it was built.
#[must_use]
pub fn in_short(predicate: &Value) -> String {
    let text = |pointer: &str| predicate.pointer(pointer).and_then(Value::as_str);
    let commit = text("/buildDefinition/externalParameters/source/digest/gitCommit");
    let commit = commit.map_or_else(|| "no commit".to_owned(), |commit| format!("commit {commit:.12}"));
    let source = text("/buildDefinition/externalParameters/source/uri").map(|uri| format!(" of {uri}"));
    let builder = text("/runDetails/builder/id").unwrap_or("nobody knows");
    format!("{commit}{}, built by {builder}", source.unwrap_or_default())
}
