//! The loop with the plane: register, stay known, take leases, report.

mod admission;
mod assignment;
mod certified;
mod connection;
mod issue;
mod line;
mod pull;
mod report;
mod reports;
mod worker;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use backon::{BackoffBuilder as _, ExponentialBuilder};
use fettle_identity::{Fingerprint, Roots, signing::Signers};
use fettle_model::{
    reference::Reference,
    task::{Epoch, Task},
};
use fettle_telemetry::{
    Options,
    listen::{self, Endpoint, ListenError, Refresh},
};
use fettle_wire::node::{ExtendRequest, HeartbeatRequest, Verdict};
use tokio::{sync::watch, task::JoinSet};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use self::{certified::Certified, connection::Client, line::Line, reports::Reports, worker::Worker};
use crate::executor::{
    Executor,
    journal::{Held, JournalError},
};

pub use self::certified::{CertifiedError, Malformed};
pub use self::connection::{ConnectError, Transport, TransportError, transport};
pub use self::line::{Connect, Dial, Shown};

/// How long running steps may go on after the host was told to stop.
const GRACE: Duration = Duration::from_secs(20);

/// How an agent is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `https://host:port`, where a plane lets nodes in.
    pub plane: String,
    /// The name the operator gave the node.
    pub name: String,
    /// By what it is let in for the first time.
    pub invitation: Option<Invitation>,
    /// Where the node's identity is kept.
    pub data_directory: PathBuf,
    /// Tasks at once.
    pub slots: u32,
    /// Taxonomy of seed 001, 9.1.
    pub capabilities: BTreeMap<String, String>,
    /// What its operator calls it by.
    pub labels: BTreeMap<String, String>,
    /// The activation of policy bundles that the node begins with.
    pub policies: Option<Reference>,
}

/// By what a node is let in for the first time.
#[derive(Clone, Debug)]
pub enum Invitation {
    /// A join token, with the fingerprint by which the plane is known.
    Token(String),
    /// A key that the plane was told of before, and the fingerprint of the plane's authority.
    Key {
        /// The private key, PEM, in a file that its owner alone may read.
        file: PathBuf,
        /// What the plane is known by.
        authority: Fingerprint,
    },
}

/// Why an agent stopped by itself.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The plane's address is malformed.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The node's certificate cannot be used.
    #[error(transparent)]
    Certified(#[from] CertifiedError),
    /// The join token lacks what the plane is known by.
    #[error(
        "the join token is cut short: behind the dot are the 64 digits by which this host knows the plane; copy it whole"
    )]
    CutJoinToken,
    /// The node never joined and has no token to do so.
    #[error(
        "this node has not joined and has no join token; make one with `fettle-plane join-token create` and give it with --join-token-file, or let it in by a key of its own (--key-file)"
    )]
    NoJoinToken,
    /// The key that the plane was told of cannot be used.
    #[error("the key {} cannot be used: {reason}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong, and the fix.
        reason: String,
    },
    /// The plane does not take this node.
    #[error("the plane at {plane} refuses this node: {reason}")]
    Refused {
        /// Its address.
        plane: String,
        /// Its words.
        reason: String,
        /// Whether it would say the same for ever.
        is_final: bool,
    },
    /// The node cannot begin with the policy bundles that it was started with.
    #[error("this node takes no tasks before it has its policy bundles: {reason} [{code}]")]
    Policies {
        /// Why, for programs.
        code: String,
        /// Why, for people.
        reason: String,
    },
    /// The journal failed; nothing may be started without it.
    #[error("the host cannot go on without its journal")]
    Journal(#[source] JournalError),
}

/// The agent of one node.
pub struct Agent {
    settings: Settings,
    executor: Executor,
    line: Line,
    client: Client,
    /// Whose tasks count.
    signers: RwLock<Arc<Signers>>,
    /// Which authorities count and sign, as the plane said last; empty before it has.
    marks: watch::Sender<String>,
    /// Where tasks report.
    reports: Reports,
    /// Grows whenever the plane says that the certificate does not count at this time.
    expired: watch::Sender<u64>,
    /// Grows whenever the connection is another one, which streams then move to.
    moves: watch::Sender<u64>,
    workers: Mutex<BTreeMap<String, Worker>>,
    /// Tasks that were put down because their leases were lost, with the epochs of these.
    lost: Mutex<BTreeMap<String, Epoch>>,
    /// Grows whenever a worker ends, so that the plane hears of the free slot.
    ended: watch::Sender<u64>,
    running: tokio::sync::Semaphore,
}

/// The waits between attempts to reach the plane: from 100 ms to 10 s, with jitter, without end.
fn backoff() -> backon::ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(100))
        .with_max_delay(Duration::from_secs(10))
        .with_jitter()
        .without_max_times()
        .build()
}

impl Agent {
    /// Sets up an agent; nothing is sent yet.
    ///
    /// # Errors
    /// When the plane's address is malformed.
    pub fn new(settings: Settings, executor: Executor) -> Result<Arc<Self>, AgentError> {
        let line = Line::to(&settings.plane)?;
        Ok(Self::on(line, settings, executor))
    }

    /// The same, with something else than the network between it and the plane.
    #[must_use]
    pub fn over(dial: impl Dial + 'static, settings: Settings, executor: Executor) -> Arc<Self> {
        Self::on(Line::by(dial), settings, executor)
    }

    fn on(line: Line, settings: Settings, executor: Executor) -> Arc<Self> {
        Arc::new(Self {
            running: tokio::sync::Semaphore::new(settings.slots as usize),
            settings,
            executor,
            client: connection::client(line.transport()),
            signers: RwLock::new(Arc::new(Signers::of(&Roots::default()))),
            line,
            reports: Reports::default(),
            marks: watch::Sender::default(),
            expired: watch::Sender::new(0),
            moves: watch::Sender::new(0),
            workers: Mutex::default(),
            lost: Mutex::default(),
            ended: watch::Sender::new(0),
        })
    }

    /// Runs until `stop`: takes leases, executes, reports. Running steps get a time of grace.
    ///
    /// # Errors
    /// When the plane refuses the node, or the journal fails.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) -> Result<(), AgentError> {
        let held = self.executor.journal.held().await.map_err(AgentError::Journal)?;
        let mut tasks = JoinSet::new();
        // What was begun goes on at once; the plane may be away for long.
        for Held { task, epoch, outcome } in held {
            let Task { task_id, operation_id, correlation_id, .. } = &task;
            tracing::info!(task_id, operation_id, correlation_id, "resuming from the journal");
            worker::start(&self, task, (epoch, worker::SHORTEST_LEASE), outcome, &mut tasks);
        }
        let admitted = tokio::select! {
            admitted = self.admitted() => admitted?,
            () = stop.cancelled() => return self.wind_down(tasks).await,
        };
        let node_id: Arc<str> = admitted.certified.node_id.as_str().into();
        tracing::info!(%node_id, plane = self.settings.plane, "registered");
        tokio::select! {
            begun = self.begin_with_policies(&node_id) => begun?,
            () = stop.cancelled() => return self.wind_down(tasks).await,
        }
        let heartbeat = tokio::spawn(Arc::clone(&self).heartbeat(Arc::clone(&node_id), admitted.heartbeat));
        let _policies = AbortOnDropHandle::new(tokio::spawn(Arc::clone(&self).tell_policies(Arc::clone(&node_id))));
        // Until the last step has ended and is reported.
        let _reports = AbortOnDropHandle::new(tokio::spawn(reports::keep(Arc::clone(&self))));
        let refused = tokio::select! {
            refused = pull::run(&self, &node_id, &mut tasks, &stop) => refused.map(|status| self.refused(&status)),
            refused = self.keep_certificate(admitted.certified) => Some(refused),
        };
        heartbeat.abort();
        self.wind_down(tasks).await?;
        refused.map_or(Ok(()), Err)
    }

    /// Obeys the activation that this host was started with; a registry that is away is waited for.
    async fn begin_with_policies(&self, node_id: &str) -> Result<(), AgentError> {
        let Some(activation) = &self.settings.policies else { return Ok(()) };
        let mut waits = backoff();
        loop {
            match self.executor.begin_with(activation, node_id).await {
                Ok(()) => return Ok(()),
                Err(failure) if failure.is_retryable() => {
                    tracing::warn!(reason = failure.message, "the policy bundles are not there yet; trying again");
                    tokio::time::sleep(waits.next().unwrap_or(Duration::from_secs(10))).await;
                }
                Err(failure) => return Err(AgentError::Policies { code: failure.code, reason: failure.message }),
            }
        }
    }

    /// Tells the plane whenever other policy bundles count. What is lost is said again at the next start.
    async fn tell_policies(self: Arc<Self>, node_id: Arc<str>) {
        let mut revisions = self.executor.policies.revisions();
        while revisions.changed().await.is_ok() {
            let mut waits = backoff();
            while let Err(status) = self.client.clone().register(self.facts(node_id.to_string())).await {
                tracing::warn!(reason = status.message(), "the plane does not know yet which policy bundles count");
                tokio::time::sleep(waits.next().unwrap_or(Duration::from_secs(10))).await;
            }
        }
    }

    /// Serves metrics while the answer is kept; not at all when nobody asked for them.
    ///
    /// # Errors
    /// When the address is open to other machines and that was not allowed, or cannot be taken.
    pub async fn serve_metrics(self: &Arc<Self>, options: &Options) -> Result<Option<Endpoint>, ListenError> {
        let Some(address) = options.metrics_listen else { return Ok(None) };
        let agent = Arc::clone(self);
        let refresh: Refresh = Arc::new(move || {
            agent.measure();
            Box::pin(async {})
        });
        let metrics = self.executor.metrics.all.clone();
        let endpoint = listen::serve(address, options.metrics_allow_remote, metrics, refresh).await?;
        tracing::info!(address = %endpoint.address(), "metrics are served");
        Ok(Some(endpoint))
    }

    /// Shows this certificate from now on, and obeys its authorities.
    fn become_known(&self, node: &Certified) -> Result<(), ConnectError> {
        let signers = Arc::new(Signers::of(&node.authorities));
        *self.signers.write().unwrap_or_else(PoisonError::into_inner) = signers;
        self.line.show(&node.shown())
    }

    /// Whose tasks count.
    fn signers(&self) -> Arc<Signers> {
        Arc::clone(&self.signers.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn workers(&self) -> MutexGuard<'_, BTreeMap<String, Worker>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lost(&self) -> MutexGuard<'_, BTreeMap<String, Epoch>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wind_down(&self, mut tasks: JoinSet<()>) -> Result<(), AgentError> {
        tracing::info!(running = tasks.len(), "stopping; running steps get {} s", GRACE.as_secs());
        for worker in self.workers().values() {
            worker.signals.drain.cancel();
        }
        let ended = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, ended).await.is_err() {
            for worker in self.workers().values() {
                worker.signals.put_down.cancel();
            }
            let _ = tokio::time::timeout(GRACE, async { while tasks.join_next().await.is_some() {} }).await;
        }
        if let Some(cache) = self.executor.sandbox.code_cache() {
            cache.close().await;
        }
        Ok(())
    }

    async fn heartbeat(self: Arc<Self>, node_id: Arc<str>, interval: Duration) {
        let mut every = tokio::time::interval(interval);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            let clock_milliseconds = self.executor.clock.now();
            let request = HeartbeatRequest { node_id: node_id.to_string(), clock_milliseconds };
            let answer = match self.client.clone().heartbeat(request).await {
                Ok(answer) => answer.into_inner(),
                Err(status) => {
                    tracing::debug!(reason = status.message(), "a heartbeat did not arrive");
                    continue;
                }
            };
            self.executor.metrics.clock_ahead.set(clock_milliseconds.saturating_sub(answer.clock_milliseconds));
            self.marks.send_if_modified(|mark| {
                let changed = *mark != answer.mark;
                *mark = answer.mark;
                changed
            });
            self.forget_what_is_over(&node_id).await;
        }
    }

    /// Asks about tasks whose leases were lost. One that is not leased again, because it was canceled meanwhile, is
    /// told of in no other way. A lost lease cannot be extended, so asking changes nothing.
    async fn forget_what_is_over(&self, node_id: &str) {
        let lost: Vec<(String, Epoch)> = self.lost().clone().into_iter().collect();
        for (task_id, epoch) in lost {
            let request = ExtendRequest { node_id: node_id.to_owned(), task_id: task_id.clone(), epoch: epoch.0 };
            let answer = self.client.clone().extend(request).await.map(tonic::Response::into_inner);
            if !answer.is_ok_and(|answer| answer.verdict() == Verdict::Ended) {
                continue;
            }
            self.lost().remove(&task_id);
            if let Err(error) = self.executor.journal.forget(&task_id).await {
                let error = &error as &dyn std::error::Error;
                tracing::error!(task_id, error, "a task that is over could not be forgotten");
            }
        }
    }
}

/// Where the journal of a host is.
#[must_use]
pub fn journal_path(data_directory: &Path) -> PathBuf {
    data_directory.join("journal.sqlite")
}
