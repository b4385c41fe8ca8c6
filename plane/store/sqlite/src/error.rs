//! From database errors to store errors.

use std::error::Error;

use fettle_store::StoreError;

/// Makes the error of a verb that the database did not complete.
pub(crate) fn unavailable<E: Into<Box<dyn Error + Send + Sync>>>(verb: &'static str) -> impl FnOnce(E) -> StoreError {
    move |source| StoreError::Unavailable { verb, source: source.into().into() }
}

/// The writer is closed.
#[derive(Debug, thiserror::Error)]
#[error("the store is closed")]
pub(crate) struct Closed;

/// Another transaction of the same commit could not be written, so none was.
#[derive(Debug, thiserror::Error)]
#[error("the commit failed: {0}")]
pub(crate) struct CommitFailed(pub(crate) String);

/// The write was dropped before it began, because the database refused a transaction.
#[derive(Debug, thiserror::Error)]
#[error("the database refused to begin a transaction")]
pub(crate) struct NotBegun;
