//! A component that is run here: from a file, or fetched and verified like everything else.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use fettle_host::sandbox::{Compiled, Limits, Sandbox};
use fettle_model::{cassette::Cassette, descriptor::Descriptor, reference::Reference};
use fettle_supply::ArtifactKind;

use super::{Session, look};
use crate::{error::CommandError, supply::TrustArguments};

/// A component, ready to be run.
pub(super) struct Component {
    /// For messages.
    pub(super) path: PathBuf,
    pub(super) sandbox: Sandbox,
    pub(super) compiled: std::sync::Arc<Compiled>,
    pub(super) descriptor: Descriptor,
}

impl Component {
    /// Loads `FILE|REFERENCE`. What is fetched must be signed; a file is taken as it is.
    pub(super) async fn load(session: &Session, name: &str, trust: &TrustArguments) -> Result<Self, CommandError> {
        let path = Path::new(name);
        let content = match name.parse::<Reference>() {
            Ok(reference) if !path.exists() => {
                trust.supplier(session)?.artifact(ArtifactKind::Step, &reference).await?.content
            }
            Ok(_) | Err(_) => look::read(path).await?,
        };
        Self::compile(path, content).await
    }

    /// Compiles a component that was read. `path` is for messages.
    pub(super) async fn compile(path: &Path, content: Bytes) -> Result<Self, CommandError> {
        let wrong = |source| CommandError::Component { path: path.to_owned(), source };
        let sandbox =
            Sandbox::new(1, Limits::default()).map_err(|error| CommandError::Sandbox(format!("{error:#}")))?;
        let compiled = sandbox.compile(content).await.map_err(wrong)?;
        let descriptor = sandbox.describe(&compiled).await.map_err(wrong)?;
        Ok(Self { path: path.to_owned(), sandbox, compiled, descriptor })
    }
}

/// Reads a cassette's file.
pub(super) async fn cassette(path: &Path) -> Result<Cassette, CommandError> {
    let content = look::read(path).await?;
    Cassette::read(&content).map_err(|source| CommandError::Cassette { path: path.to_owned(), source })
}
