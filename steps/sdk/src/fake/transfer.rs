//! `transfer` on the fake node.

use sha2::{Digest, Sha256};

use super::{
    files,
    node::{State, with},
};
use crate::transfer::{Blob, Error, Manifest, Transferred};

/// The SHA-256 of `content` as `sha256:<hex>`.
#[must_use]
pub fn digest_of(content: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(content)))
}

fn check(state: &mut State, place: &str) -> Result<(), Error> {
    let host = place.split('/').next().unwrap_or_default();
    if !state.hosts.contains(host) {
        return Err(Error::AccessDenied);
    }
    state.transfer_fault.take().map_or(Ok(()), Err)
}

pub(crate) fn authorize(credential: &str) -> Result<(), Error> {
    with(|state| {
        state.calls.push(format!("transfer.authorize {credential}"));
        if state.carried.contains(credential) { Ok(()) } else { Err(Error::AccessDenied) }
    })
}

pub(crate) fn pull_manifest(reference: &str) -> Result<Manifest, Error> {
    with(|state| {
        state.calls.push(format!("transfer.pull-manifest {reference}"));
        check(state, reference)?;
        state.manifests.get(reference).cloned().ok_or_else(|| Error::NotFound(reference.to_owned()))
    })
}

pub(crate) fn pull_blobs(repository: &str, blobs: &[Blob]) -> Result<Vec<Transferred>, Error> {
    with(|state| {
        state.calls.push(format!("transfer.pull-blobs {repository} {}", blobs.len()));
        check(state, repository)?;
        blobs.iter().map(|blob| pull(state, repository, blob)).collect()
    })
}

fn pull(state: &mut State, repository: &str, blob: &Blob) -> Result<Transferred, Error> {
    files::check(state, &blob.destination, true).map_err(|_| Error::AccessDenied)?;
    let content = state.blobs.get(&(repository.to_owned(), blob.digest.clone())).cloned();
    let content = content.ok_or_else(|| Error::NotFound(blob.digest.clone()))?;
    if content.len() as u64 != blob.size || digest_of(&content) != blob.digest {
        return Err(Error::Corrupt(format!("`{}` is not {} bytes with that digest", blob.digest, blob.size)));
    }
    let file = files::regular(content, 0o644);
    let present = state.files.get(&blob.destination).is_some_and(|there| there.content == file.content);
    state.files.insert(blob.destination.clone(), file);
    Ok(Transferred { bytes: if present { 0 } else { blob.size }, present, resumed: 0 })
}
