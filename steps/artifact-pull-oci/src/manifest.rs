//! Reads an OCI manifest, and refuses what is none.

use std::collections::BTreeMap;

use fettle_step::{Failure, transfer};
use serde::Deserialize;

const MANIFESTS: [&str; 2] =
    ["application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json"];

/// The layers that an artifact may have: as many blobs as one call of the host moves.
const LAYERS: usize = 256;

/// What this step needs of a manifest. Unknown fields are allowed: the format grows.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    schema_version: u32,
    media_type: Option<String>,
    layers: Option<Vec<Layer>>,
    manifests: Option<serde::de::IgnoredAny>,
}

/// A layer's descriptor.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Layer {
    pub(crate) media_type: String,
    pub(crate) digest: String,
    pub(crate) size: u64,
    #[serde(default)]
    pub(crate) annotations: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) urls: Vec<String>,
}

/// The layers of a manifest.
pub(crate) fn layers(answer: &transfer::Manifest) -> Result<Vec<Layer>, Failure> {
    check_media_type(&answer.media_type)?;
    let manifest: Manifest = serde_json::from_slice(&answer.content)
        .map_err(|error| refuse("malformed", &format!("cannot be read: {error}; push the artifact again")))?;
    if let Some(inside) = &manifest.media_type {
        check_media_type(inside)?;
    }
    if manifest.manifests.is_some() {
        return Err(index());
    }
    if manifest.schema_version != 2 {
        return Err(refuse("malformed", &format!("has schema version {}; only 2 is known", manifest.schema_version)));
    }
    let layers = manifest.layers.unwrap_or_default();
    match layers.len() {
        0 => Err(refuse("empty", "has no layers, so there is nothing to pull")),
        1..=LAYERS => Ok(layers),
        many => Err(refuse("too-many-layers", &format!("has {many} layers; at most {LAYERS} are allowed"))),
    }
}

fn check_media_type(media_type: &str) -> Result<(), Failure> {
    if media_type.contains("image.index") || media_type.contains("manifest.list") {
        return Err(index());
    }
    if MANIFESTS.contains(&media_type) {
        return Ok(());
    }
    Err(refuse(
        "media-type",
        &format!("is of type `{media_type}`; only `{}` and `{}` are pulled", MANIFESTS[0], MANIFESTS[1]),
    ))
}

fn index() -> Failure {
    refuse("index", "is an index of several manifests; name the digest of the one for this node")
}

fn refuse(code: &str, rule: &str) -> Failure {
    Failure::permanent(format!("manifest.{code}"), format!("the artifact's manifest {rule}"))
}
