//! What is pulled, and where it goes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is pulled, and where it goes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The artifact, by digest: `host:port/repository@sha256:<hex>`. A tag is refused: it can be moved.
    pub(crate) reference: String,
    /// The directory its files go to: `root/relative/path`.
    pub(crate) destination: String,
    /// The most that all files together may hold, in bytes. Nothing is fetched when they hold more.
    pub(crate) max_size_bytes: Option<u64>,
    /// The media types that layers may have. Any, when left out.
    pub(crate) media_types: Option<Vec<String>>,
    /// The handle of an `oci_pull` credential for this artifact. None is used, when left out.
    pub(crate) credential: Option<String>,
}

/// The artifact as it lies on the node.
#[derive(Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The directory of the files.
    pub(crate) path: String,
    /// The digest of the manifest.
    pub(crate) digest: String,
    /// Bytes of all files together.
    pub(crate) size: u64,
    /// In the order of the manifest.
    pub(crate) files: Vec<File>,
}

/// One layer, as a file. Its content is the layer's as it is: nothing is unpacked.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub(crate) struct File {
    /// `root/relative/path`
    pub(crate) path: String,
    /// `sha256:<hex>`
    pub(crate) digest: String,
    /// Bytes.
    pub(crate) size: u64,
}
