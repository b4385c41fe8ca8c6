//! What gives credentials.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use fettle_model::credential::Intent;
use jiff::Timestamp;
use zeroize::Zeroizing;

/// The longest that a credential is said to last, whatever gave it.
pub(crate) const LONGEST: Duration = Duration::from_hours(1);

/// How long one lasts where its provider is not told.
pub(crate) const USUAL: Duration = Duration::from_mins(5);

/// A credential that somebody may have.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// What it is to open.
    pub intent: &'a Intent,
    /// For which node, task, operation and step: told to issuers, and written into tokens that are signed here.
    pub bearer: Bearer<'a>,
    /// Makes this one different from all others.
    pub id: &'a str,
    /// The time.
    pub now: Timestamp,
}

/// Who is to have a credential.
#[derive(Clone, Copy, Debug)]
pub struct Bearer<'a> {
    /// The node.
    pub node_id: &'a str,
    /// The task.
    pub task_id: &'a str,
    /// The operation.
    pub operation_id: &'a str,
    /// The step.
    pub step_id: &'a str,
}

/// A credential.
pub struct Minted {
    /// What it consists of, by the names of [`fettle_model::credential::CredentialType::parts`].
    pub material: BTreeMap<String, Zeroizing<String>>,
    /// How long it lasts from now.
    pub lifetime: Duration,
}

/// Why there is none. No text of it holds a secret.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// Nobody gives this.
    #[error("no provider of this plane gives `{0}`; name one in the document of `--credentials`")]
    None(String),
    /// Whoever gives it says no.
    #[error("{provider} refuses: {reason}")]
    Refused {
        /// Who.
        provider: String,
        /// Why, as far as it says.
        reason: String,
    },
    /// Whoever gives it does not answer now.
    #[error("{provider} cannot be asked now: {reason}")]
    Unavailable {
        /// Who.
        provider: String,
        /// Why.
        reason: String,
    },
    /// What came is no credential of this type.
    #[error("{provider} answered something else than a credential: {reason}")]
    Malformed {
        /// Who.
        provider: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Gives credentials of one type.
#[async_trait]
pub(crate) trait Provider: Send + Sync {
    /// Gives one.
    async fn mint(&self, wanted: &Wanted<'_>) -> Result<Minted, ProviderError>;
}

impl Minted {
    /// One of a single part.
    pub(crate) fn of(part: &str, secret: Zeroizing<String>, lifetime: Duration) -> Self {
        Self { material: BTreeMap::from([(part.to_owned(), secret)]), lifetime: lifetime.min(LONGEST) }
    }
}
