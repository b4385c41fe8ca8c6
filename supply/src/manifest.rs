//! Reading and writing manifests.

use bytes::Bytes;
use fettle_model::digest::Digest;
use oci_client::manifest::{IMAGE_MANIFEST_MEDIA_TYPE, OciDescriptor, OciImageManifest};
use serde::{Deserialize, de::IgnoredAny};

use crate::{
    error::Defect,
    kind::{ArtifactKind, CONFIG_LIMIT, MANIFEST_MEDIA_TYPE},
    mutation::{Protection, off},
};

/// Annotation that names a layer, as other tools write it.
pub(crate) const TITLE: &str = "org.opencontainers.image.title";

/// A manifest as it came: the bytes whose digest was asked for.
#[derive(Clone, Debug)]
pub struct RawManifest {
    /// What the manifest says it is, or the registry where it says nothing.
    pub media_type: String,
    /// The bytes, already checked against the reference's digest.
    pub content: Bytes,
}

/// One manifest with its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// What the artifact says it is.
    pub artifact_type: Option<String>,
    /// Its configuration.
    pub config: Descriptor,
    /// Its layers, in order.
    pub layers: Vec<Descriptor>,
}

/// One part of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// What it is.
    pub media_type: String,
    /// The digest of its bytes.
    pub digest: Digest,
    /// How many bytes.
    pub size: u64,
    /// The file name that its author gave it.
    pub title: Option<String>,
}

/// What tells an index from a manifest before either is believed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Probe {
    schema_version: Option<u64>,
    media_type: Option<String>,
    manifests: Option<IgnoredAny>,
}

impl Manifest {
    /// Reads a manifest of any artifact.
    ///
    /// # Errors
    /// When it is an index, no manifest, of another version, or when a descriptor has a `urls` field or
    /// a digest other than SHA-256.
    pub fn parse(content: &[u8]) -> Result<Self, Defect> {
        let unreadable = |error: serde_json::Error| Defect::Manifest(error.to_string());
        let probe: Probe = serde_json::from_slice(content).map_err(unreadable)?;
        let media_type = probe.media_type.as_deref().unwrap_or(MANIFEST_MEDIA_TYPE);
        let listed = probe.manifests.is_some() && !off(Protection::NoIndex);
        if listed || media_type.contains("index") || media_type.contains("manifest.list") {
            return Err(Defect::Index(media_type.to_owned()));
        }
        if probe.schema_version != Some(2) || ![MANIFEST_MEDIA_TYPE, IMAGE_MANIFEST_MEDIA_TYPE].contains(&media_type) {
            let (media_type, version) = (media_type.to_owned(), probe.schema_version.unwrap_or_default());
            return Err(Defect::ManifestType { media_type, version });
        }
        let manifest: OciImageManifest = serde_json::from_slice(content).map_err(unreadable)?;
        Ok(Self {
            artifact_type: manifest.artifact_type,
            config: Descriptor::check("configuration", manifest.config)?,
            layers: manifest
                .layers
                .into_iter()
                .enumerate()
                .map(|(index, layer)| Descriptor::check(&format!("layer {index}"), layer))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Checks that this is an artifact of `kind`, and returns its one layer.
    ///
    /// # Errors
    /// Names the first rule that it breaks.
    pub fn layer_of(&self, kind: ArtifactKind) -> Result<&Descriptor, Defect> {
        let wrong =
            |what, found: &str, expected| Err(Defect::MediaType { what, found: found.to_owned(), expected, kind });
        if self.config.media_type != kind.config_media_type() {
            return wrong("configuration", &self.config.media_type, kind.config_media_type());
        }
        if let Some(expected) = kind.artifact_type()
            && self.artifact_type.as_deref() != Some(expected)
        {
            return wrong("artifact type", self.artifact_type.as_deref().unwrap_or("absent"), expected);
        }
        let layers = if off(Protection::OneLayer) { self.layers.get(..1) } else { Some(self.layers.as_slice()) };
        let Some([layer]) = layers else {
            return Err(Defect::Layers { count: self.layers.len(), kind });
        };
        if !kind.layer_media_types().contains(&layer.media_type.as_str()) {
            return wrong("layer", &layer.media_type, kind.layer_media_types()[0]);
        }
        let rule = "the limit of its kind";
        if layer.size > kind.layer_limit() {
            return Err(Defect::TooLarge { what: "layer".to_owned(), limit: kind.layer_limit(), rule });
        }
        if self.config.size > CONFIG_LIMIT {
            return Err(Defect::TooLarge { what: "configuration".to_owned(), limit: CONFIG_LIMIT, rule });
        }
        Ok(layer)
    }
}

impl Descriptor {
    pub(crate) fn check(what: &str, descriptor: OciDescriptor) -> Result<Self, Defect> {
        if descriptor.urls.is_some() && !off(Protection::NoUrls) {
            return Err(Defect::Urls(what.to_owned()));
        }
        let unreadable = |reason: String| Defect::Manifest(format!("{what}: {reason}"));
        let digest = descriptor
            .digest
            .parse()
            .map_err(|error: fettle_model::digest::ParseDigestError| unreadable(error.to_string()))?;
        let size =
            u64::try_from(descriptor.size).map_err(|_| unreadable(format!("its size is {}", descriptor.size)))?;
        let title = descriptor.annotations.and_then(|mut annotations| annotations.remove(TITLE));
        Ok(Self { media_type: descriptor.media_type, digest, size, title })
    }
}
