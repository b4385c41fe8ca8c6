//! What a build writes beside a component: its bill of materials and its provenance. Both are signed
//! when the component is published.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use fettle_model::digest::Digest;
use serde_json::Value;

use super::{provenance, sbom};
use crate::error::CommandError;

/// The record of a build.
#[derive(Clone, Debug)]
pub struct Record {
    /// The bill of materials, as CycloneDX.
    pub sbom: Vec<u8>,
    /// The provenance, as the predicate of a statement.
    pub provenance: Vec<u8>,
}

/// Where the bill of materials and the provenance of a component are.
#[must_use]
pub fn paths(component: &Path) -> (PathBuf, PathBuf) {
    (component.with_extension("sbom.json"), component.with_extension("provenance.json"))
}

impl Record {
    /// Writes it beside the component.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, component: &Path) -> Result<(), CommandError> {
        let (sbom, provenance) = paths(component);
        for (path, content) in [(sbom, &self.sbom), (provenance, &self.provenance)] {
            fs::write(&path, content).map_err(|source| CommandError::Write { path, source })?;
        }
        Ok(())
    }

    /// Reads what is beside a component; none when there is nothing.
    ///
    /// # Errors
    /// When only half of it is there, or it is of another component.
    pub fn beside(component: &Path, digest: Digest) -> Result<Option<Self>, CommandError> {
        let (sbom, provenance) = paths(component);
        if !sbom.exists() && !provenance.exists() {
            return Ok(None);
        }
        Self::read(&sbom, &provenance, digest).map(Some)
    }

    /// Reads two files.
    ///
    /// # Errors
    /// When they cannot be read, or are of another component than the one with this digest.
    pub fn read(sbom: &Path, provenance: &Path, digest: Digest) -> Result<Self, CommandError> {
        let read = |path: &Path| fs::read(path).map_err(|source| CommandError::Read { path: path.to_owned(), source });
        let record = Self { sbom: read(sbom)?, provenance: read(provenance)? };
        let refused = |path: &Path, reason: String| CommandError::Refused { path: path.to_owned(), reason };
        let again = "build the step again with `fettle step build`, and publish that";
        match sbom::read(&record.sbom) {
            Some((of, _)) if of == digest => {}
            Some((of, _)) => {
                return Err(refused(sbom, format!("it is the bill of materials of {of}, not of {digest}; {again}")));
            }
            None => {
                return Err(refused(
                    sbom,
                    format!("it is no CycloneDX 1.5 document that names its component; {again}"),
                ));
            }
        }
        let predicate: Value = serde_json::from_slice(&record.provenance)
            .map_err(|error| refused(provenance, format!("it is no JSON: {error}; {again}")))?;
        for (name, is) in [("component", digest), ("sbom", Digest::of(&record.sbom))] {
            if provenance::byproduct(&predicate, name) != Some(is) {
                return Err(refused(provenance, format!("it is not the provenance of the {name} {is}; {again}")));
            }
        }
        Ok(record)
    }

    /// Both as predicates: type and content.
    ///
    /// # Errors
    /// When they are no JSON.
    pub fn predicates(&self) -> Result<[(&'static str, Value); 2], CommandError> {
        let value = |content: &[u8]| {
            serde_json::from_slice(content).map_err(|error| CommandError::Read {
                path: PathBuf::from("the record of a build"),
                source: io::Error::other(error),
            })
        };
        Ok([(sbom::PREDICATE_TYPE, value(&self.sbom)?), (provenance::PREDICATE_TYPE, value(&self.provenance)?)])
    }
}
