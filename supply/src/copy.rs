//! Copying artifacts between registries and layouts, byte for byte, with all that is attached to them.
//!
//! Nothing is verified on the way but digests: whoever uses the copy verifies it as they would the
//! original, and comes to the same verdict.

use std::{collections::BTreeSet, path::PathBuf};

use fettle_model::{
    digest::Digest,
    reference::{Reference, Repository},
};
use oci_client::manifest::{OciDescriptor, OciImageManifest};

use crate::{
    download::{BlobDownload, DownloadError},
    error::{Defect, Outage, SupplyError},
    kind::{MANIFEST_LIMIT, MANIFEST_MEDIA_TYPE},
    layout::Layout,
    manifest::{Descriptor, Manifest},
    registry::{Fault, Place, RegistryClient, own_tag},
    signature,
};

/// Where an artifact is copied from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopySource {
    /// A registry.
    Registry(Reference),
    /// A layout, and which artifact of it.
    Layout(Layout, Digest),
}

/// Where an artifact is copied to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyTarget {
    /// A repository.
    Registry(Repository),
    /// A layout.
    Layout(Layout),
}

/// What was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The artifact.
    pub digest: Digest,
    /// Signatures in cosign's format.
    pub signatures: usize,
    /// Manifests that refer to it: bundles and others.
    pub referrers: usize,
}

struct Copy<'a> {
    client: &'a RegistryClient,
    source: Place<'a>,
    target: &'a CopyTarget,
}

impl RegistryClient {
    /// Copies an artifact with its signatures and all that refers to it.
    ///
    /// # Errors
    /// `Unavailable` when source or target fail; `Malformed` when a manifest cannot be read.
    pub async fn copy(&self, source: &CopySource, target: &CopyTarget) -> Result<Copied, SupplyError> {
        let (place, name) = match source {
            CopySource::Registry(reference) => (Place::Registry(self, reference), reference.to_string()),
            CopySource::Layout(layout, digest) => {
                (Place::Layout(layout.clone(), *digest), format!("oci-layout:{}@{digest}", layout.root().display()))
            }
        };
        let copy = Copy { client: self, source: place, target };
        copy.everything().await.map_err(|fault| fault.of(&name))
    }
}

impl Copy<'_> {
    async fn everything(&self) -> Result<Copied, Fault> {
        let digest = self.source.subject();
        self.manifest(&digest, &own_tag(&digest)).await?;
        let mut copied = Copied { digest, signatures: 0, referrers: 0 };
        let tag = signature::tag(&digest);
        if let Some(content) = self.source.tagged(&tag, MANIFEST_LIMIT).await? {
            copied.signatures = Manifest::parse(&content)?.layers.len();
            self.parts(&content).await?;
            self.put(&content, &tag).await?;
        }
        let mut seen = BTreeSet::new();
        for entry in self.source.referrers().await? {
            if let Ok(referrer) = entry.digest.parse::<Digest>()
                && seen.insert(referrer)
            {
                self.manifest(&referrer, &own_tag(&referrer)).await?;
                copied.referrers += 1;
            }
        }
        Ok(copied)
    }

    async fn manifest(&self, digest: &Digest, tag: &str) -> Result<(), Fault> {
        let content = self.source.manifest(digest, MANIFEST_LIMIT).await?;
        self.parts(&content).await?;
        self.put(&content, tag).await
    }

    async fn parts(&self, manifest: &[u8]) -> Result<(), Fault> {
        let manifest = Manifest::parse(manifest)?;
        for part in manifest.layers.iter().chain([&manifest.config]) {
            self.blob(part).await?;
        }
        Ok(())
    }

    /// Puts a manifest there, after its parts.
    async fn put(&self, content: &[u8], tag: &str) -> Result<(), Fault> {
        let manifest: OciImageManifest =
            serde_json::from_slice(content).map_err(|error| Defect::Manifest(error.to_string()))?;
        match self.target {
            CopyTarget::Registry(to) if manifest.subject.is_some() => {
                self.client.put_referrer(to, content, &manifest).await.map(drop)
            }
            CopyTarget::Registry(to) => self.client.put_manifest(to, content, Some(tag)).await.map(drop),
            CopyTarget::Layout(layout) => {
                let digest = layout.write_blob(content.to_vec().into()).await?;
                let entry = OciDescriptor {
                    media_type: manifest.media_type.unwrap_or_else(|| MANIFEST_MEDIA_TYPE.to_owned()),
                    digest: digest.to_string(),
                    size: i64::try_from(content.len()).unwrap_or(i64::MAX),
                    artifact_type: manifest.artifact_type,
                    ..OciDescriptor::default()
                };
                layout.list(entry, tag).await
            }
        }
    }

    /// Copies one blob, of any size, through a file.
    async fn blob(&self, part: &Descriptor) -> Result<(), Fault> {
        let directory = match self.target {
            CopyTarget::Layout(layout) if layout.has(&part.digest) => return Ok(()),
            CopyTarget::Layout(layout) => layout.root().to_owned(),
            CopyTarget::Registry(_) => std::env::temp_dir(),
        };
        let broken = |error: std::io::Error| Fault::caused(Outage::LayoutUnreadable(directory.clone()), error);
        let mut staged = None;
        let path: PathBuf = match &self.source {
            Place::Layout(layout, _) if layout.has(&part.digest) => layout.blob_path(&part.digest),
            Place::Layout(layout, _) => return Err(layout.missing("part", &part.digest)),
            Place::Registry(client, reference) => {
                let file = tempfile::NamedTempFile::new_in(&directory).map_err(broken)?;
                let destination = file.reopen().map_err(broken)?;
                let (repository, digest, size) = (&reference.repository, part.digest, part.size);
                let download = BlobDownload { repository, digest, size, destination, resume_from: 0 };
                client.download_blob(download, |_| ()).await.map_err(fault)?;
                staged.insert(file).path().to_owned()
            }
        };
        match self.target {
            CopyTarget::Layout(layout) => layout.take_blob(&path, &part.digest, part.size).await,
            CopyTarget::Registry(to) => {
                let media_type = part.media_type.clone();
                let size = i64::try_from(part.size).unwrap_or(i64::MAX);
                let blob =
                    OciDescriptor { media_type, digest: part.digest.to_string(), size, ..OciDescriptor::default() };
                self.client.push_file(to, &blob, path).await
            }
        }
    }
}

fn fault(error: DownloadError) -> Fault {
    match error {
        DownloadError::Unavailable { reason, source, .. } => Fault::Outage(reason, source),
        DownloadError::NotFound { blob } => Fault::new(Outage::Missing(format!("`{blob}`"))),
        DownloadError::Corrupt { reason, .. } => reason.into(),
        other @ (DownloadError::NoSpace { .. } | DownloadError::Destination { .. }) => {
            Fault::caused(Outage::LayoutUnreadable(std::env::temp_dir()), other)
        }
    }
}
