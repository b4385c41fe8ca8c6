//! Which policy bundles count on this node (seed 001, 9.6). Signed activations decide; a host keeps the last one that it
//! obeyed, and verifies it again whenever a task is prepared.
//!
//! The law by which one follows the other is [`ActivePolicies::after`]. Until the first comes, every bundle counts that
//! is signed.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use fettle_model::{
    activation::{ActivePolicies, recovery_bundle},
    failure::{Failure, FailureClass},
    plan::Graph,
    policy::PolicyBundle,
    reference::Reference,
    task::Task,
};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::{Executor, Shelf, failure};
use crate::{
    capabilities::policy::Activator,
    clock::Milliseconds,
    mutation::{Protection, off},
    refusals::{About, Refusal},
};

/// The file below the data directory.
const FILE: &str = "policies.json";

/// Activations that are remembered for people.
const REMEMBERED: usize = 100;

/// What counts on this node, and how that came about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyRecord {
    /// What counts; every signed bundle when there is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<Arc<ActivePolicies>>,
    /// The activations that were obeyed, the newest last; 100 at most.
    #[serde(default)]
    pub history: Vec<Activated>,
}

/// An activation that was obeyed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Activated {
    /// When, by the node's clock (RFC 3339).
    pub at: String,
    /// Which.
    pub activation: Reference,
    /// Its revision.
    pub revision: u64,
    /// The task that brought it; none when the host was started with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// What follows the operation of that task through every log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
}

/// Why the record of active policy bundles cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PoliciesError {
    /// A file cannot be read or written.
    #[error("{} cannot be used; check its permissions", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: std::io::Error,
    },
    /// It is not what a host writes. Passing it over would let every bundle count again.
    #[error(
        "{} was damaged; remove it and start the host with `--policies` and the activation that shall count",
        path.display()
    )]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
}

/// Which policy bundles count. Cheap to clone.
#[derive(Clone)]
pub struct Policies(Arc<Shared>);

struct Shared {
    directory: PathBuf,
    record: RwLock<Arc<PolicyRecord>>,
    /// One activation after the other.
    turn: tokio::sync::Mutex<()>,
    revision: watch::Sender<u64>,
}

/// Who brings an activation, and when.
pub(crate) struct Bringer<'a> {
    pub(crate) node_id: &'a str,
    pub(crate) task: Option<&'a Task>,
    pub(crate) at: Milliseconds,
}

/// What the host keeps of active policy bundles; for whoever looks at it from outside.
///
/// # Errors
/// When the file cannot be read, or is not what a host writes.
pub fn read(directory: &Path) -> Result<PolicyRecord, PoliciesError> {
    let path = directory.join(FILE);
    match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|source| PoliciesError::Damaged { path, source }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(PolicyRecord::default()),
        Err(source) => Err(PoliciesError::File { path, source }),
    }
}

impl Policies {
    /// What this data directory knows.
    ///
    /// # Errors
    /// When the file cannot be read, or is not what a host writes.
    pub fn open(directory: &Path) -> Result<Self, PoliciesError> {
        let record = read(directory)?;
        let revision = record.active.as_ref().map_or(0, |active| active.revision);
        Ok(Self(Arc::new(Shared {
            directory: directory.to_owned(),
            record: RwLock::new(Arc::new(record)),
            turn: tokio::sync::Mutex::default(),
            revision: watch::Sender::new(revision),
        })))
    }

    /// What counts; none when every signed bundle does.
    #[must_use]
    pub fn active(&self) -> Option<Arc<ActivePolicies>> {
        self.0.record.read().unwrap_or_else(PoisonError::into_inner).active.clone()
    }

    /// The revision of what counts, whenever it changes; 0 when every signed bundle does.
    pub(crate) fn revisions(&self) -> watch::Receiver<u64> {
        self.0.revision.subscribe()
    }

    /// The bundle that a task names; none when it does not count here.
    pub(super) async fn named(&self, shelf: &Shelf, named: &Reference) -> Result<Option<Arc<PolicyBundle>>, Failure> {
        let Some(active) = self.active() else { return shelf.policy(named).await.map(Some) };
        if !active.bundles.contains(&named.digest) && !off(Protection::PolicyBundlesCount) {
            return Ok(None);
        }
        let signed = shelf.activation(&active.activation).await?;
        if !active.follows_from(&signed) && !off(Protection::ActivationsAreVerifiedAgain) {
            let path = self.0.directory.join(FILE);
            let message = format!(
                "{} does not say what {} does; remove it, and start the host with `--policies` and the activation that shall count",
                path.display(),
                active.activation
            );
            return Err(failure(FailureClass::Denied, "policy.damaged", message));
        }
        shelf.policy(named).await.map(Some)
    }

    /// The compiled bundle, for a task whose own does not count here and that needs nothing else.
    pub(super) fn recovery(&self, named: &Reference, graph: &Graph) -> Result<Arc<PolicyBundle>, Failure> {
        let recovery = recovery_bundle();
        if graph.steps.iter().all(|step| step.grants.beyond(&recovery.ceiling).is_empty()) {
            return Ok(Arc::new(recovery));
        }
        Err(not_active(named, self.active().as_deref()))
    }

    /// Verifies an activation and all that it names, and obeys it from then on. Again changes nothing.
    pub(crate) async fn activate(
        &self,
        shelf: &Shelf,
        activation: &Reference,
        bringer: Bringer<'_>,
    ) -> Result<Arc<ActivePolicies>, Failure> {
        let _turn = self.0.turn.lock().await;
        let document = shelf.activation(activation).await?;
        let before = self.active();
        let active = ActivePolicies::after(before.as_deref(), activation, &document, bringer.node_id)
            .map_err(|refusal| failure(FailureClass::Denied, refusal.code(), refusal.to_string()))?;
        if let Some(before) = before.filter(|before| **before == active) {
            return Ok(before);
        }
        for bundle in &document.bundles {
            shelf.policy(bundle).await?;
        }
        let active = Arc::new(active);
        self.keep(Arc::clone(&active), &bringer).map_err(|error| {
            let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            failure(FailureClass::Transient, "policy.not-kept", format!("{error}: {source}"))
        })?;
        tracing::info!(revision = active.revision, activation = %active.activation, "other policy bundles count");
        Ok(active)
    }

    /// Durable before anybody obeys it. A file of some KiB, once in a long while: no thread is taken for it.
    fn keep(&self, active: Arc<ActivePolicies>, bringer: &Bringer<'_>) -> Result<(), PoliciesError> {
        let mut record = PolicyRecord::clone(&self.0.record.read().unwrap_or_else(PoisonError::into_inner));
        let revision = active.revision;
        record.history.push(Activated {
            at: jiff::Timestamp::from_millisecond(bringer.at).unwrap_or_default().to_string(),
            activation: active.activation.clone(),
            revision,
            task_id: bringer.task.map(|task| task.task_id.clone()),
            correlation_id: bringer.task.map(|task| task.correlation_id.clone()),
        });
        let surplus = record.history.len().saturating_sub(REMEMBERED);
        record.history.drain(..surplus);
        record.active = Some(active);
        self.write(&record).map_err(|source| PoliciesError::File { path: self.0.directory.join(FILE), source })?;
        *self.0.record.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(record);
        self.0.revision.send_replace(revision);
        Ok(())
    }

    fn write(&self, record: &PolicyRecord) -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.0.directory)?;
        file.write_all(&serde_json::to_vec_pretty(record)?)?;
        file.as_file().sync_all()?;
        fettle_crash::point("policies::before_rename");
        file.persist(self.0.directory.join(FILE))?;
        fettle_crash::point("policies::after_rename");
        std::fs::File::open(&self.0.directory)?.sync_all()
    }
}

fn not_active(named: &Reference, active: Option<&ActivePolicies>) -> Failure {
    let counts = active.map_or_else(String::new, |active| {
        let bundles: Vec<String> = active.bundles.iter().map(ToString::to_string).collect();
        format!("; activation {} of revision {} names {}", active.activation, active.revision, bundles.join(", "))
    });
    let message = format!(
        "the definition was registered with policy bundle {named}, which does not count on this node{counts}; register the definition with a bundle that does, or activate this one (`fettle policy activate`)"
    );
    failure(FailureClass::Denied, "policy.not-active", message)
}

/// What a task asks through the capability `policy`.
pub(super) struct OfTask {
    pub(super) executor: Executor,
    pub(super) task: Task,
}

impl Activator for OfTask {
    fn active(&self) -> Option<Arc<ActivePolicies>> {
        self.executor.policies.active()
    }

    fn activate<'a>(&'a self, activation: &'a Reference) -> BoxFuture<'a, Result<Arc<ActivePolicies>, Failure>> {
        let Self { executor, task } = self;
        Box::pin(async move {
            let bringer = Bringer { node_id: &task.node_id, task: Some(task), at: executor.clock.now() };
            let activated = executor.policies.activate(&executor.shelf, activation, bringer).await;
            if let Err(Failure { class: FailureClass::Denied, code, message, .. }) = &activated {
                let reason = format!("activation {activation}: {message}");
                executor.refuse(&Refusal { code, reason: &reason, about: About::task(task) });
            }
            activated
        })
    }
}

impl Executor {
    /// Begins with an activation, as whoever sets up a node says. One that is newer counts on.
    ///
    /// # Errors
    /// When it may not be obeyed, or cannot be fetched now.
    pub(crate) async fn begin_with(&self, activation: &Reference, node_id: &str) -> Result<(), Failure> {
        let bringer = Bringer { node_id, task: None, at: self.clock.now() };
        match self.policies.activate(&self.shelf, activation, bringer).await {
            Err(refused) if refused.code == "policy.older-activation" => {
                tracing::info!(reason = refused.message, "a newer activation counts already");
                Ok(())
            }
            ended => ended.map(drop),
        }
    }
}
