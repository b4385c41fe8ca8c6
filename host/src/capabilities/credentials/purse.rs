//! The credentials of one task: minted when a step asks, kept until the task ends, minted again when they have run out.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use fettle_model::{
    credential::{CredentialType, Intent},
    grant::CredentialsGrant,
    name::StepId,
};
use futures::future::BoxFuture;
use tokio::sync::Mutex;

use super::{
    handle::{Handle, HandleKey},
    secret::{Secret, SecretError},
};

/// Credentials that are minted for one task at most.
const MOST: u32 = 64;

/// A credential that lasts no longer than this is not begun with.
const MARGIN: Duration = Duration::from_secs(10);

/// The longest that a credential is kept, whatever its issuer says.
const LONGEST: Duration = Duration::from_hours(1);

/// A credential, for as long as something uses it.
#[derive(Debug)]
pub struct Credential {
    /// What it opens.
    pub intent: Intent,
    parts: BTreeMap<String, Secret>,
    until: Instant,
}

/// What an issuer answers.
#[derive(Debug)]
pub struct Issued {
    /// How long it lasts from now.
    pub lifetime: Duration,
    /// What it consists of, by the names of [`CredentialType::parts`].
    pub parts: BTreeMap<String, Secret>,
}

/// Why there is no credential.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// It is not given, and the same would be answered again.
    #[error("{reason} [{code}]")]
    Refused {
        /// Stable code of the reason.
        code: String,
        /// Why.
        reason: String,
    },
    /// The plane, or whoever it gets credentials from, does not answer now.
    #[error("{0}")]
    Unavailable(String),
    /// What was answered is of no use.
    #[error("{0}")]
    Failed(String),
    /// It cannot be kept.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The task has had as many as a task may have.
    #[error("this task has had {MOST} credentials minted, and a task may have no more")]
    TooMany,
    /// The text is no handle of this task, or of another type.
    #[error("this is no handle of a credential of type {0}; give what `credential.mint` of the same task put out")]
    NoHandle(CredentialType),
}

/// Gives credentials to one task: its plane.
pub trait Issuer: Send + Sync {
    /// Gives what a step of the task is allowed to have.
    fn issue<'a>(&'a self, step_id: &'a StepId, intent: &'a Intent) -> BoxFuture<'a, Result<Issued, IssueError>>;
}

/// For tasks without a plane: gives nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoIssuer;

impl Issuer for NoIssuer {
    fn issue<'a>(&'a self, _: &'a StepId, _: &'a Intent) -> BoxFuture<'a, Result<Issued, IssueError>> {
        let reason = "this task has no plane, and credentials come from there".to_owned();
        Box::pin(async { Err(IssueError::Refused { code: "credential.no_plane".to_owned(), reason }) })
    }
}

/// What one task holds. Dropped with the task, and all secrets with it.
pub struct Purse {
    key: HandleKey,
    task_id: String,
    issuer: Arc<dyn Issuer>,
    /// What each step may have minted.
    rules: RwLock<BTreeMap<StepId, CredentialsGrant>>,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    credentials: BTreeMap<Handle, Arc<Credential>>,
    minted: u32,
}

impl Purse {
    /// An empty one.
    #[must_use]
    pub fn new(key: HandleKey, task_id: String, issuer: Arc<dyn Issuer>) -> Self {
        Self { key, task_id, issuer, rules: RwLock::default(), held: Mutex::default() }
    }

    /// What a step may have minted, whether it runs now or ran before the host was started again.
    pub(super) fn allow(&self, step_id: &StepId, grant: &CredentialsGrant) {
        self.rules.write().unwrap_or_else(PoisonError::into_inner).insert(step_id.clone(), grant.clone());
    }

    fn may_have(&self, Handle { step_id, intent }: &Handle) -> bool {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        rules.get(step_id).is_some_and(|grant| grant.allows(intent))
    }

    /// Has a credential minted, and answers its handle.
    pub(super) async fn mint(&self, step_id: &StepId, intent: Intent) -> Result<String, IssueError> {
        let handle = Handle { step_id: step_id.clone(), intent };
        let text = self.key.write(&self.task_id, &handle);
        self.issue(&mut *self.held.lock().await, handle).await?;
        Ok(text)
    }

    /// The credential that a handle stands for; another one where the first has run out, or was lost with the process
    /// that held it.
    pub(in crate::capabilities) async fn open(
        &self,
        text: &str,
        wanted: CredentialType,
    ) -> Result<Arc<Credential>, IssueError> {
        let handle = self.key.read(&self.task_id, text);
        let handle = handle.filter(|handle| handle.intent.credential_type() == wanted && self.may_have(handle));
        let handle = handle.ok_or(IssueError::NoHandle(wanted))?;
        let mut held = self.held.lock().await;
        match held.credentials.get(&handle) {
            Some(known) if known.lasts() => Ok(Arc::clone(known)),
            _ => self.issue(&mut held, handle).await,
        }
    }

    async fn issue(&self, held: &mut Held, handle: Handle) -> Result<Arc<Credential>, IssueError> {
        // One that has run out is not kept until there is another.
        held.credentials.retain(|_, known| known.lasts());
        if held.minted >= MOST {
            return Err(IssueError::TooMany);
        }
        held.minted += 1;
        let Issued { lifetime, parts } = self.issuer.issue(&handle.step_id, &handle.intent).await?;
        let until = Instant::now() + lifetime.min(LONGEST);
        let credential = Arc::new(Credential { intent: handle.intent.clone(), parts, until });
        held.credentials.insert(handle, Arc::clone(&credential));
        Ok(credential)
    }
}

impl Credential {
    /// A part of it.
    pub(in crate::capabilities) fn part(&self, name: &str) -> Option<&Secret> {
        self.parts.get(name)
    }

    /// Whether it may still be used.
    pub(in crate::capabilities) fn is_good(&self) -> bool {
        Instant::now() < self.until
    }

    /// Whether it is worth beginning something with it.
    fn lasts(&self) -> bool {
        Instant::now() + MARGIN < self.until
    }
}

#[cfg(test)]
mod tests;
