//! Tokens: one for the person who develops, one for the node.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use fettle_plane::administration::{self, Access, Administration};

use super::PROJECT;
use crate::plane::{PlaneClient, PlaneError};

const NAME: &str = "fettle-dev";

/// The token of the last run where it still opens the plane, else a new one.
pub(super) async fn token(plane_data: &Path, plane: &str, last: Option<&str>) -> anyhow::Result<String> {
    if let Some(last) = last {
        match PlaneClient::new(plane, last, PROJECT)?.nodes().await {
            Ok(_) => return Ok(last.to_owned()),
            Err(PlaneError::Refused(problem)) if problem.status == 401 => {}
            Err(error) => return Err(error.into()),
        }
    }
    let administration = Administration::open(plane_data).await?;
    let project = PROJECT.parse().ok().and_then(|name| administration::project(name, None));
    administration.ensure_project(project.context("the project has no name")?).await?;
    let known = administration.tokens().await?;
    if known.iter().any(|token| token.name == NAME && token.revoked_at.is_none()) {
        administration.revoke_token(NAME).await?;
    }
    let (_, secret) = administration.create_token(NAME, Access::PlatformAdmin, None).await?;
    administration.close().await;
    Ok(secret.reveal().to_owned())
}

/// A file with a join token; none when the node has joined before.
pub(super) async fn join_token(plane_data: &Path, host_data: &Path) -> anyhow::Result<Option<PathBuf>> {
    if host_data.join("certificate.json").exists() {
        return Ok(None);
    }
    let administration = Administration::open(plane_data).await?;
    let secret = administration.create_join_token(1, None, Duration::from_secs(3600)).await?;
    administration.close().await;
    let path = host_data.join("join-token");
    let write = || -> std::io::Result<()> {
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        file.write_all(secret.reveal().as_bytes())
    };
    write().with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Some(path))
}
