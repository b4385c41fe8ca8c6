//! Files of public keys and of trust policies.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use fettle_supply::{PublicKey, TrustPolicy};

use crate::{error::CommandError, supply::read};

/// A public key in PEM, by the name of its file.
pub(super) fn key(path: &Path) -> Result<(String, PublicKey), CommandError> {
    let key =
        PublicKey::from_pem(&read(path)?).map_err(|source| CommandError::Key { path: path.to_owned(), source })?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok((name, key))
}

/// Several.
pub(super) fn keys(paths: &[PathBuf]) -> Result<Vec<(String, PublicKey)>, CommandError> {
    paths.iter().map(|path| key(path)).collect()
}

/// Writes a trust policy where nothing is.
pub(super) fn write_new(path: &Path, policy: &TrustPolicy) -> Result<(), CommandError> {
    let failed = |source| CommandError::Write { path: path.to_owned(), source };
    let text = serde_norway::to_string(policy).map_err(|error| failed(std::io::Error::other(error.to_string())))?;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}
