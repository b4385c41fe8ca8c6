//! Why a store did not do what it was asked.

use std::{error::Error, sync::Arc};

/// A verb that did not happen. Nothing of it was written, unless it is said otherwise.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The database did not answer, or refused the write: disk full, file gone, shutting down. When the connection
    /// was lost while the write was committed, as its source says then, it may have happened: ask again.
    #[error("the database did not complete `{verb}`; check its disk space and its health, then try again")]
    Unavailable {
        /// The verb.
        verb: &'static str,
        /// What the database said.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// A row does not have the form it was written with.
    #[error("the database holds a malformed {what}; restore it from a backup")]
    Corrupt {
        /// Kind of record.
        what: &'static str,
        /// What is wrong with it.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// What the verb is about is not there.
    #[error("there is no {what} `{name}`")]
    NotFound {
        /// Kind of record.
        what: &'static str,
        /// What was asked for.
        name: String,
    },
    /// The state does not allow it.
    #[error("{message}")]
    Conflict {
        /// Stable, dotted: `operation.is_over`.
        code: &'static str,
        /// What is in the way, and the way out.
        message: String,
    },
}

impl StoreError {
    /// The state does not allow it.
    pub fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::Conflict { code, message: message.into() }
    }

    /// What the verb is about is not there.
    pub fn not_found(what: &'static str, name: impl ToString) -> Self {
        Self::NotFound { what, name: name.to_string() }
    }

    /// A row cannot be read.
    pub fn corrupt(what: &'static str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Corrupt { what, source: source.into().into() }
    }
}
