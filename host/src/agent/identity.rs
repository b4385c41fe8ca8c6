//! Who this node is: what the plane answered to its first registration.

use std::{
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// The node's id and its secret. One file, 0600.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Identity {
    pub(super) node_id: String,
    pub(super) secret: String,
}

/// Why the identity cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file cannot be read or written.
    #[error("the node's identity {path} cannot be used; check the permissions of the data directory")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: std::io::Error,
    },
    /// The file is no identity.
    #[error("the node's identity {path} is damaged; remove it and register again with a new join token")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
}

fn path(directory: &Path) -> PathBuf {
    directory.join("identity.json")
}

impl Identity {
    pub(super) fn load(directory: &Path) -> Result<Option<Self>, IdentityError> {
        let path = path(directory);
        match std::fs::read(&path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map(Some).map_err(|source| IdentityError::Damaged { path, source })
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(IdentityError::File { path, source }),
        }
    }

    pub(super) fn save(&self, directory: &Path) -> Result<(), IdentityError> {
        let path = path(directory);
        let temporary = path.with_extension("new");
        let write = || -> std::io::Result<()> {
            let mut file =
                std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
            file.write_all(&serde_json::to_vec(self)?)?;
            file.sync_all()?;
            std::fs::rename(&temporary, &path)?;
            std::fs::File::open(directory)?.sync_all()
        };
        write().map_err(|source| IdentityError::File { path: path.clone(), source })
    }
}
