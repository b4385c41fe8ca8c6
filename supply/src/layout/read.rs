//! Reading a layout: bounded, and hashed like what comes from a registry.

use std::{
    io::{self, Read},
    path::PathBuf,
};

use bytes::Bytes;
use fettle_model::digest::Digest;
use oci_client::manifest::{OciDescriptor, OciImageManifest};

use super::{Layout, NAME_ANNOTATION};
use crate::{
    error::{Defect, Outage},
    kind::{MANIFEST_LIMIT, MANIFEST_MEDIA_TYPE},
    registry::{Fault, INDEX_LIMIT, Index},
};

/// Most manifests that a layout lists; more are not looked at.
const ENTRY_LIMIT: usize = 100_000;

impl Layout {
    /// Content of at most `limit` bytes; its bytes are those of the digest.
    pub(crate) async fn blob(&self, what: &str, digest: &Digest, limit: u64) -> Result<Bytes, Fault> {
        let path = self.blob_path(digest);
        let content = self.file(path, limit, what).await?.ok_or_else(|| self.missing(what, digest))?;
        let actual = Digest::of(&content);
        if actual == *digest {
            return Ok(content);
        }
        Err(Defect::ChangedBytes { what: what.to_owned(), expected: *digest, actual }.into())
    }

    /// What to say when something is not there.
    pub(crate) fn missing(&self, what: &str, digest: &Digest) -> Fault {
        let layout = self.root.clone();
        Fault::new(Outage::NotInLayout { what: format!("its {what} `{digest}`"), layout })
    }

    /// All manifests that the index lists.
    pub(crate) async fn entries(&self) -> Result<Vec<OciDescriptor>, Fault> {
        let content = self.file(self.root.join("index.json"), INDEX_LIMIT, "index").await?;
        let content = content.ok_or_else(|| {
            let (what, layout) = ("an `index.json`".to_owned(), self.root.clone());
            Fault::new(Outage::NotInLayout { what, layout })
        })?;
        let entries = Index::read(&content, "`index.json` of the layout")?.manifests;
        if entries.len() > ENTRY_LIMIT {
            return Err(Defect::Signature(format!("the layout lists more than {ENTRY_LIMIT} manifests")).into());
        }
        Ok(entries)
    }

    /// A manifest under a tag; none when there is none.
    pub(crate) async fn tagged(&self, tag: &str, limit: u64) -> Result<Option<Bytes>, Fault> {
        let named = |entry: &OciDescriptor| {
            entry.annotations.as_ref().and_then(|all| all.get(NAME_ANNOTATION)).is_some_and(|name| name == tag)
        };
        // The last of several is the newest.
        let Some(entry) = self.entries().await?.into_iter().rfind(named) else { return Ok(None) };
        let digest: Digest = entry.digest.parse().map_err(|_| Defect::Signature("it has no digest".to_owned()))?;
        self.blob("manifest", &digest, limit).await.map(Some)
    }

    /// The manifests whose subject is this.
    pub(crate) async fn referrers(&self, subject: &Digest) -> Result<Vec<OciDescriptor>, Fault> {
        let mut found = Vec::new();
        for entry in self.entries().await? {
            if entry.media_type != MANIFEST_MEDIA_TYPE {
                continue;
            }
            let Ok(digest) = entry.digest.parse::<Digest>() else { continue };
            let Some(content) = self.file(self.blob_path(&digest), MANIFEST_LIMIT, "manifest").await? else { continue };
            let Ok(manifest) = serde_json::from_slice::<OciImageManifest>(&content) else { continue };
            if manifest.subject.is_some_and(|it| it.digest == subject.to_string()) {
                let (artifact_type, annotations) = (manifest.artifact_type, manifest.annotations);
                found.push(OciDescriptor { artifact_type, annotations, ..entry });
            }
        }
        Ok(found)
    }

    async fn file(&self, path: PathBuf, limit: u64, what: &str) -> Result<Option<Bytes>, Fault> {
        let root = self.root.clone();
        let read = tokio::task::spawn_blocking(move || read_file(&path, limit)).await;
        let read = read.map_err(|error| Fault::caused(Outage::Stopped, error))?;
        let content = read.map_err(|error| Fault::caused(Outage::LayoutUnreadable(root), error))?;
        if content.as_ref().is_some_and(|content| content.len() as u64 > limit) {
            let rule = "the most that may come";
            return Err(Defect::TooLarge { what: what.to_owned(), limit, rule }.into());
        }
        Ok(content.map(Bytes::from))
    }
}

/// The content, or one byte more than the limit of it.
fn read_file(path: &std::path::Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other(format!("{} is not a plain file", path.display())));
    }
    let mut content = Vec::new();
    file.take(limit + 1).read_to_end(&mut content)?;
    Ok(Some(content))
}
