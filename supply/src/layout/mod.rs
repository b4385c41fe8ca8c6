//! OCI image layouts: a directory that stands for a registry where there is no network.
//!
//! `index.json` lists manifests; everything is below `blobs/sha256` by its digest. Signatures are listed
//! under the tag that a registry would have, and referrers by their `subject`. Whoever can write to the
//! directory can do what whoever can write to a registry can: nothing of it is believed without its
//! digest or a signature.

mod read;
mod write;

use std::path::{Path, PathBuf};

use fettle_model::digest::Digest;

/// Annotation of a manifest in the index: its tag.
const NAME_ANNOTATION: &str = "org.opencontainers.image.ref.name";
const MARK: &str = "oci-layout";
const MARK_CONTENT: &[u8] = b"{\"imageLayoutVersion\":\"1.0.0\"}";

/// A layout directory. Cheap to clone; nothing is kept open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    root: PathBuf,
}

/// Why a directory cannot be used as a layout.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// It is none, and not empty either.
    #[error("{} is not an OCI image layout (it has no `oci-layout` file); name one, or a directory to make one in", .0.display())]
    NotALayout(PathBuf),
    /// It cannot be made.
    #[error("cannot make an OCI image layout in {}", path.display())]
    Make {
        /// The directory.
        path: PathBuf,
        /// The error below.
        #[source]
        source: std::io::Error,
    },
}

impl Layout {
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Opens a layout.
    ///
    /// # Errors
    /// When the directory is none.
    pub fn open(root: &Path) -> Result<Self, LayoutError> {
        if root.join(MARK).is_file() {
            return Ok(Self::at(root));
        }
        Err(LayoutError::NotALayout(root.to_owned()))
    }

    /// Opens a layout, or makes an empty one where there is nothing yet.
    ///
    /// # Errors
    /// When there is something else, or the directory cannot be made.
    pub fn open_or_create(root: &Path) -> Result<Self, LayoutError> {
        if root.join(MARK).is_file() {
            return Ok(Self::at(root));
        }
        let failed = |source| LayoutError::Make { path: root.to_owned(), source };
        std::fs::create_dir_all(root).map_err(failed)?;
        if std::fs::read_dir(root).map_err(failed)?.next().is_some() {
            return Err(LayoutError::NotALayout(root.to_owned()));
        }
        std::fs::create_dir_all(root.join("blobs/sha256")).map_err(failed)?;
        let index = br#"{"manifests":[],"mediaType":"application/vnd.oci.image.index.v1+json","schemaVersion":2}"#;
        std::fs::write(root.join("index.json"), index).map_err(failed)?;
        std::fs::write(root.join(MARK), MARK_CONTENT).map_err(failed)?;
        Ok(Self::at(root))
    }

    /// The directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether there is content under this digest.
    #[must_use]
    pub fn has(&self, digest: &Digest) -> bool {
        self.blob_path(digest).is_file()
    }

    pub(crate) fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.root.join("blobs/sha256").join(digest.hex())
    }
}
