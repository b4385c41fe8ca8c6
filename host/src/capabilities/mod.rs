//! What a step can be given. One folder per capability, each with three phases:
//!
//! 1. `link`, once per component and set of grants: its functions become importable;
//! 2. `configure`, once per task: the grant is read against the node's policy and fails early;
//! 3. `prepare`, once per attempt: fresh state, nothing shared with another attempt.
//!
//! The full list is [`Configured`] and [`Prepared`]. Their defaults deny everything.

pub mod credentials;
pub mod exec;
pub mod facts;
pub mod files;
pub mod gpu;
pub mod http;
pub mod policy;
pub mod report;
pub mod transfer;

use std::{collections::BTreeSet, sync::Arc};

use fettle_model::{
    access,
    definition::ArtifactConstraints,
    failure::{Failure, FailureClass},
    grant::{Capability, Grants},
    name::StepId,
    policy::PolicyBundle,
};
use tokio_util::sync::CancellationToken;
use wasmtime::component::{HasSelf, Linker};

pub use self::report::denials;

use crate::{
    blocking::Blocking,
    queue::{Pressure, Queue},
    sandbox::{AttemptState, bindings::fettle as wit},
};

/// What a node has to give, whatever a task grants.
#[derive(Clone)]
pub struct Node {
    /// What there is only so much of.
    pub queues: Queues,
    /// Programs are started here.
    pub spawner: exec::Spawner,
    /// Where relative roots are.
    pub files_directory: std::path::PathBuf,
    /// How blobs are fetched.
    pub transfers: transfer::Transfers,
    /// How HTTP requests are sent.
    pub web: http::Web,
    /// Where facts are read.
    pub facts: facts::Source,
    /// How GPUs are asked.
    pub gpu: gpu::Probe,
    /// Digests of files that were hashed, while they stay as they are.
    pub digests: files::DigestCache,
}

/// What a node has only so much of; whoever finds none left waits. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Queues {
    /// Blobs that are fetched.
    pub transfers: Queue,
    /// Work that blocks in the kernel.
    pub blocking: Blocking,
}

impl Queues {
    /// Blobs that a node fetches at once. Each has a connection, a file and some MiB of buffers, and a
    /// few fill every network.
    pub const TRANSFERS: usize = 16;

    /// Queues of the usual sizes; who waits is felt in `pressure`.
    #[must_use]
    pub fn new(pressure: &Pressure) -> Self {
        Self {
            transfers: Queue::new(Self::TRANSFERS, pressure),
            blocking: Blocking::new(crate::blocking::THREADS, pressure),
        }
    }
}

impl Default for Queues {
    fn default() -> Self {
        Self::new(&Pressure::default())
    }
}

/// What the steps of one task share.
pub struct OfTask {
    /// Where its credentials are.
    pub purse: Arc<credentials::Purse>,
    /// What has the node obey activations.
    pub activator: Arc<dyn policy::Activator>,
}

/// The capabilities of one step, after its grant was read.
#[derive(Clone, Default)]
pub struct Configured {
    exec: exec::Configured,
    files: files::Configured,
    transfer: transfer::Configured,
    facts: facts::Configured,
    gpu: gpu::Configured,
    http: http::Configured,
    credentials: credentials::Configured,
    policy: policy::Configured,
    purse: Option<credentials::StepPurse>,
}

/// The capabilities of one attempt.
#[derive(Default)]
pub struct Prepared {
    pub(crate) denials: denials::Denials,
    pub(crate) report: report::Report,
    pub(crate) exec: exec::Exec,
    pub(crate) files: files::Files,
    pub(crate) transfer: transfer::Transfer,
    pub(crate) facts: facts::Facts,
    pub(crate) gpu: gpu::Gpu,
    pub(crate) http: http::Http,
    pub(crate) credentials: credentials::Credentials,
    pub(crate) policy: policy::Policy,
}

/// Makes the granted capabilities importable, and `report`.
///
/// # Errors
/// When an interface is linked twice; never in practice.
pub fn link(linker: &mut Linker<AttemptState>, granted: &BTreeSet<Capability>) -> wasmtime::Result<()> {
    wit::report::report::add_to_linker::<_, HasSelf<AttemptState>>(linker, |state| state)?;
    for capability in granted {
        match capability {
            Capability::Exec => wit::exec::exec::add_to_linker::<_, HasSelf<AttemptState>>(linker, |state| state)?,
            Capability::Files => wit::files::files::add_to_linker::<_, HasSelf<AttemptState>>(linker, |state| state)?,
            Capability::Transfer => {
                wit::transfer::transfer::add_to_linker::<_, HasSelf<AttemptState>>(linker, |state| state)?;
            }
            Capability::Facts => wit::facts::facts::add_to_linker::<_, HasSelf<AttemptState>>(linker, |state| state)?,
            Capability::Gpu => wit::gpu::gpu::add_to_linker::<_, HasSelf<AttemptState>>(linker, |state| state)?,
            Capability::Http => wit::http::http::add_to_linker::<_, HasSelf<AttemptState>>(linker, |state| state)?,
            Capability::Credentials => {
                wit::credentials::credentials::add_to_linker::<_, HasSelf<AttemptState>>(linker, |state| state)?;
            }
            Capability::Policy => {
                wit::policy::policy::add_to_linker::<_, HasSelf<AttemptState>>(linker, |state| state)?;
            }
        }
    }
    Ok(())
}

impl Configured {
    /// Reads a step's grant against the node's policy.
    ///
    /// # Errors
    /// When the grant goes beyond the node's ceiling, or names a profile or root that the policy does
    /// not have. Nothing has run then.
    pub fn new(
        node: &Node,
        grants: &Grants,
        policy: &PolicyBundle,
        constraints: Option<&ArtifactConstraints>,
    ) -> Result<Self, Failure> {
        access::within(grants, policy)?;
        let files = files::Configured::new(grants.files.as_ref(), policy, node)?;
        Ok(Self {
            exec: exec::Configured::new(grants.exec.as_ref(), policy, node)?,
            transfer: transfer::Configured::new(grants.transfer.as_ref(), constraints, &files, policy, node)?,
            facts: facts::Configured::new(grants.facts.as_ref(), node),
            gpu: gpu::Configured::new(grants.gpu.as_ref(), node),
            http: http::Configured::new(grants.http.as_ref(), policy, node)?,
            credentials: credentials::Configured::new(grants.credentials.as_ref()),
            policy: policy::Configured::new(grants.policy.as_ref()),
            purse: None,
            files,
        })
    }

    /// The same for a step of a task, whose credentials are in this purse.
    #[must_use]
    pub fn with_purse(mut self, purse: &Arc<credentials::Purse>, step_id: &StepId) -> Self {
        self.purse = Some(self.credentials.of_step(purse, step_id));
        self
    }

    /// The same for a step of a task, which may have the node obey activations.
    #[must_use]
    pub fn with_activator(mut self, activator: &Arc<dyn policy::Activator>) -> Self {
        self.policy.activator = Some(Arc::clone(activator));
        self
    }

    /// Whether the step may write files at all.
    pub(crate) fn may_write(&self) -> bool {
        self.files.may_write()
    }

    /// Removes what interrupted work left where the step may write.
    pub(crate) fn sweep(&self) {
        self.files.sweep();
    }

    /// Fresh state for one attempt.
    #[must_use]
    pub fn prepare(&self, report: report::Report, attempt: &str) -> Prepared {
        let denials = report.denials();
        let purse = self.purse.as_ref().map(|purse| Arc::clone(purse.purse()));
        Prepared {
            exec: self.exec.prepare(attempt, purse.clone(), report.handle(), denials.clone()),
            files: self.files.prepare(denials.clone()),
            transfer: self.transfer.prepare(purse, report.handle(), denials.clone()),
            facts: self.facts.prepare(denials.clone()),
            gpu: self.gpu.prepare(denials.clone()),
            http: self.http.prepare(report.handle(), denials.clone()),
            credentials: self.credentials.prepare(self.purse.clone(), report.handle(), denials.clone()),
            policy: self.policy.prepare(report.handle(), denials.clone()),
            denials,
            report,
        }
    }
}

impl Prepared {
    /// Asks what the attempt has started to end once `stop` is canceled: programs get a signal, transfers break off.
    #[must_use]
    pub(crate) fn stopped_by(mut self, stop: &CancellationToken) -> Self {
        self.exec.stop = stop.clone();
        self.transfer.stop = stop.clone();
        self.http.stop = stop.clone();
        self
    }
}

pub(crate) fn denied(code: &str, message: impl Into<String>) -> Failure {
    Failure::new(FailureClass::Denied, code, message)
}
