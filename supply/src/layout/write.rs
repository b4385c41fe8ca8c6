//! Writing into a layout.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    path::Path,
};

use bytes::Bytes;
use fettle_model::digest::Digest;
use oci_client::manifest::OciDescriptor;

use super::{Layout, NAME_ANNOTATION};
use sha2::{Digest as _, Sha256};

use crate::{
    error::{Defect, Outage},
    registry::{Fault, Index},
};

impl Layout {
    /// Puts content under its digest.
    pub(crate) async fn write_blob(&self, content: Bytes) -> Result<Digest, Fault> {
        let digest = Digest::of(&content);
        let (path, root) = (self.blob_path(&digest), self.root.clone());
        let write = tokio::task::spawn_blocking(move || replace(&path, &content)).await;
        let write = write.map_err(|error| Fault::caused(Outage::Stopped, error))?;
        write.map_err(|error| Fault::caused(Outage::LayoutUnreadable(root), error))?;
        Ok(digest)
    }

    /// Puts the content of a file of any size under its digest.
    pub(crate) async fn take_blob(&self, from: &Path, digest: &Digest, size: u64) -> Result<(), Fault> {
        let (from, to, root) = (from.to_owned(), self.blob_path(digest), self.root.clone());
        let copy = tokio::task::spawn_blocking(move || copy_file(&from, &to, size)).await;
        let copy = copy.map_err(|error| Fault::caused(Outage::Stopped, error))?;
        let (actual, incoming) = copy.map_err(|error| Fault::caused(Outage::LayoutUnreadable(root.clone()), error))?;
        if actual != *digest {
            return Err(Defect::ChangedBytes { what: "part".to_owned(), expected: *digest, actual }.into());
        }
        let kept = incoming.persist(self.blob_path(digest)).map(drop);
        kept.map_err(|error| Fault::caused(Outage::LayoutUnreadable(root), error.error))
    }

    /// Lists a manifest under a tag. An earlier one under the same tag goes.
    pub(crate) async fn list(&self, mut manifest: OciDescriptor, tag: &str) -> Result<(), Fault> {
        let mut entries = self.entries().await?;
        let name = |entry: &OciDescriptor| entry.annotations.as_ref().and_then(|all| all.get(NAME_ANNOTATION)).cloned();
        entries.retain(|entry| name(entry).as_deref() != Some(tag));
        manifest.annotations = Some(BTreeMap::from([(NAME_ANNOTATION.to_owned(), tag.to_owned())]));
        entries.push(manifest);
        let content = Index::new(entries).to_bytes()?;
        let (path, root) = (self.root.join("index.json"), self.root.clone());
        let written = replace(&path, &content);
        written.map_err(|error| Fault::caused(Outage::LayoutUnreadable(root), error))
    }
}

/// Writes a file whole or not at all.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = incoming(path)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Copies at most `size` bytes beside `to`, and hashes them on the way.
fn copy_file(from: &Path, to: &Path, size: u64) -> io::Result<(Digest, tempfile::NamedTempFile)> {
    let mut file = incoming(to)?;
    let mut hasher = Sha256::new();
    let mut source = io::Read::take(fs::File::open(from)?, size.saturating_add(1));
    let mut buffer = vec![0; 1 << 20];
    loop {
        let length = io::Read::read(&mut source, &mut buffer)?;
        if length == 0 {
            break;
        }
        hasher.update(&buffer[..length]);
        file.write_all(&buffer[..length])?;
    }
    file.as_file().sync_all()?;
    Ok((Digest::from_bytes(hasher.finalize().into()), file))
}

fn incoming(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let directory = path.parent().unwrap_or(path);
    fs::create_dir_all(directory)?;
    let file = tempfile::Builder::new().prefix(".incoming-").tempfile_in(directory)?;
    // A layout is handed on; what it holds is no secret.
    file.as_file().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
    Ok(file)
}
