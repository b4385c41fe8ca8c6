//! The bill of materials of a step: every crate in the component, and every crate that only builds it.
//! CycloneDX 1.5 as JSON; the same sources give the same bytes, so it has no serial number and no time.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use fettle_model::digest::Digest;
use serde::Deserialize;
use serde_json::{Value, json};

use super::cargo::{Metadata, Package};
use crate::error::CommandError;

/// The predicate of an attestation that holds one.
pub const PREDICATE_TYPE: &str = "https://cyclonedx.org/bom";

/// Where crates of the public registry come from, as `Cargo.lock` writes it.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// `Cargo.lock`, as far as it matters.
#[derive(Deserialize)]
struct Lock {
    #[serde(default)]
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    source: Option<String>,
    checksum: Option<String>,
}

/// Name, version and source of a crate.
type Key = (String, String, String);

/// Writes the bill of materials of a component that was built of `package`.
///
/// # Errors
/// When `Cargo.lock` cannot be read.
pub fn write(metadata: &Metadata, package: &Package, component: Digest) -> Result<Vec<u8>, CommandError> {
    let checksums = checksums(metadata)?;
    let needed = metadata.needed_by(package);
    let mut names = Names::default();
    let root = names.of(package);
    let components: Vec<Value> = needed
        .values()
        .map(|(package, only_builds)| {
            let mut library = described("library", package, &names.of(package), checksums.get(&key(package)));
            library["scope"] = json!(if *only_builds { "excluded" } else { "required" });
            library
        })
        .collect();
    let all = std::iter::once(package).chain(needed.values().map(|(package, _)| *package));
    let dependencies: Vec<Value> = all.map(|package| edges(metadata, package, &mut names)).collect();
    let bom = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "tools": { "components": [
                { "type": "application", "name": "fettle", "version": env!("CARGO_PKG_VERSION") },
            ]},
            "component": described("application", package, &root, Some(&component.hex())),
        },
        "components": components,
        "dependencies": dependencies,
    });
    Ok(format!("{bom:#}\n").into_bytes())
}

/// The component that a bill of materials is of, and how many crates it lists.
#[must_use]
pub fn read(text: &[u8]) -> Option<(Digest, usize)> {
    let bom: Value = serde_json::from_slice(text).ok().filter(|bom: &Value| bom["bomFormat"] == "CycloneDX")?;
    let hashes = bom.pointer("/metadata/component/hashes")?.as_array()?;
    let sha256 = hashes.iter().find(|hash| hash["alg"] == "SHA-256")?["content"].as_str()?;
    let digest = format!("sha256:{sha256}").parse().ok()?;
    Some((digest, bom["components"].as_array().map_or(0, Vec::len)))
}

fn checksums(metadata: &Metadata) -> Result<BTreeMap<Key, String>, CommandError> {
    let path = metadata.workspace_root.join("Cargo.lock");
    let text = fs::read_to_string(&path).map_err(|source| CommandError::Read { path: path.clone(), source })?;
    let lock: Lock = toml::from_str(&text).map_err(|error| CommandError::Build {
        problem: format!("{} cannot be read: {}", path.display(), error.message()),
        fix: "make it again with `cargo generate-lockfile`".to_owned(),
    })?;
    let checksum =
        |locked: Locked| Some(((locked.name, locked.version, locked.source.unwrap_or_default()), locked.checksum?));
    Ok(lock.package.into_iter().filter_map(checksum).collect())
}

fn key(package: &Package) -> Key {
    let (name, version, source) = package.key();
    (name.to_owned(), version.to_owned(), source.to_owned())
}

/// Short names of packages, unique in one document. Cargo's own ids hold paths of this machine.
#[derive(Default)]
struct Names {
    known: BTreeMap<String, String>,
    used: BTreeSet<String>,
}

impl Names {
    fn of(&mut self, package: &Package) -> String {
        if let Some(name) = self.known.get(&package.id) {
            return name.clone();
        }
        let plain = format!("{}@{}", package.name, package.version);
        let numbered = (2_u32..).map(|number| format!("{plain}#{number}"));
        let name = std::iter::once(plain.clone()).chain(numbered).find(|name| !self.used.contains(name));
        let name = name.unwrap_or(plain);
        self.used.insert(name.clone());
        self.known.insert(package.id.clone(), name.clone());
        name
    }
}

/// A crate; `sha256` is of what it was made of, or of what it became.
fn described(kind: &str, package: &Package, name: &str, sha256: Option<&String>) -> Value {
    let mut described = json!({
        "type": kind, "bom-ref": name, "name": package.name, "version": package.version,
    });
    let mut add = |field: &str, value: Option<Value>| {
        if let Some(value) = value {
            described[field] = value;
        }
    };
    add("description", package.description.as_ref().map(|text| json!(text.trim())));
    add("licenses", package.license.as_deref().map(licenses));
    add("hashes", sha256.map(|hex| json!([{ "alg": "SHA-256", "content": hex }])));
    // Only the public registry is what `pkg:cargo` names; a copy elsewhere may be another crate.
    let is_public = package.source.as_deref() == Some(CRATES_IO);
    let version = package.version.replace('+', "%2B");
    add("purl", is_public.then(|| json!(format!("pkg:cargo/{}@{version}", package.name))));
    described
}

fn licenses(license: &str) -> Value {
    // As crates wrote it before there were expressions.
    let expression = license.replace('/', " OR ");
    if spdx::Expression::parse(&expression).is_ok() {
        return json!([{ "expression": expression }]);
    }
    json!([{ "license": { "name": license } }])
}

fn edges(metadata: &Metadata, package: &Package, names: &mut Names) -> Value {
    let name = names.of(package);
    let needs: BTreeSet<String> =
        metadata.dependencies_of(package).into_iter().map(|dependency| names.of(dependency)).collect();
    json!({ "ref": name, "dependsOn": needs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_is_an_expression_where_it_is_one() {
        assert_eq!(licenses("MIT/Apache-2.0"), json!([{ "expression": "MIT OR Apache-2.0" }]));
        assert_eq!(licenses("our own terms"), json!([{ "license": { "name": "our own terms" } }]));
    }

    #[test]
    fn two_crates_of_one_name_and_version_are_told_apart() {
        let package = |id: &str| Package {
            id: id.to_owned(),
            name: "a".to_owned(),
            version: "1.0.0".to_owned(),
            license: None,
            description: None,
            source: None,
            manifest_path: "/a/Cargo.toml".into(),
            targets: Vec::new(),
        };
        let mut names = Names::default();
        let (one, other) = (package("path+file:///one"), package("path+file:///other"));
        assert_eq!((names.of(&one), names.of(&other)), ("a@1.0.0".to_owned(), "a@1.0.0#2".to_owned()));
        assert_eq!(names.of(&one), "a@1.0.0");
    }
}
