//! Starting and stopping a plane.

use std::{fs::File, future::Future, net::SocketAddr, path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use axum::serve::ListenerExt as _;
use fettle_credentials::{Desk, DeskError, SealedError};
use fettle_store::StoreError;
use fettle_supply::{ContentStore, RegistryClient, RegistryOptions, Supplier, TrustError, TrustFiles, TrustSource};
use fettle_telemetry::listen::{self, Endpoint, ListenError, Refresh};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    administration::make_directory,
    api,
    artifact::{ArtifactSource, TrustsNobody},
    clock::SystemClock,
    config::PlaneConfig,
    database::DatabaseError,
    deprecation::Moves,
    dispatch::{Holdings, Wakeups, expiry},
    identity::{
        Lockouts, Projects, Rates, TokenUses,
        authorities::{Authorities, IdentityError},
        openid::{OpenId, OpenIdError},
        task_key::TaskKey,
    },
    node::{
        self, Connection, CredentialDesk, Nodes, Refusals,
        door::{self, Door},
    },
    observation::{Observer, PlaneMetrics},
    policy::rego::{Rego, RegoError},
    reads::Reads,
    registration::Definitions,
    state::{Inner, State},
    upkeep::{self, RetentionError},
    webhook,
};

/// How long requests that are under way may take when the plane shuts down.
const GRACE: Duration = Duration::from_secs(10);

/// Why a plane did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Other machines could reach it.
    #[error(
        "{0} is reachable from other machines, and REST speaks no TLS; listen on 127.0.0.1 behind a proxy that does, or pass `--allow-remote`"
    )]
    Remote(SocketAddr),
    /// There is nothing to sign the certificates of nodes with.
    #[error("nodes cannot be let in")]
    Identity(#[source] IdentityError),
    /// The address cannot be taken.
    #[error("cannot listen on {address}; choose a free port, or port 0")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The data directory cannot be used.
    #[error("cannot use the data directory {}; name one that this user may write", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Another plane runs there.
    #[error("another plane runs on the data directory {}; stop it, or name another one", .0.display())]
    Locked(PathBuf),
    /// It is not known whose signatures count.
    #[error("the trust policy cannot be used")]
    Trust(#[source] TrustError),
    /// Artifacts cannot be fetched.
    #[error("artifacts cannot be fetched or kept")]
    Supply(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Metrics cannot be served.
    #[error(transparent)]
    Metrics(ListenError),
    /// The organisation's own rules cannot be used.
    #[error("the Rego policies cannot be used")]
    Rego(#[source] RegoError),
    /// It is not known whose word about people counts.
    #[error("OpenID cannot be used")]
    OpenId(#[source] OpenIdError),
    /// It is not known where credentials come from.
    #[error("credentials cannot be given")]
    Credentials(#[source] DeskError),
    /// Secrets of the database cannot be sealed.
    #[error("secrets cannot be sealed; `fettle-plane secret generate-key` makes a key for `--secret-key`")]
    SecretKey(#[source] SealedError),
    /// Things would not be kept as long as they must be.
    #[error(transparent)]
    Retention(RetentionError),
    /// Webhooks cannot be delivered.
    #[error("webhooks cannot be delivered")]
    Webhooks(#[source] fettle_egress::ClientError),
    /// The database cannot be opened.
    #[error("the database cannot be opened")]
    Database(#[source] DatabaseError),
    /// The store does not answer.
    #[error("the store cannot be used")]
    Store(#[source] StoreError),
}

/// A plane.
pub struct Plane;

/// A plane that runs in this process until it is shut down. Dropping it stops it without grace.
pub struct RunningPlane {
    address: SocketAddr,
    state: State,
    node_address: SocketAddr,
    servers: [JoinHandle<std::io::Result<()>>; 2],
    timers: [JoinHandle<()>; 5],
    metrics: Option<Endpoint>,
    _lock: File,
}

impl Plane {
    /// Starts a plane that fetches its artifacts from registries.
    ///
    /// # Errors
    /// When the configuration, the data directory or the address cannot be used.
    pub async fn start(config: PlaneConfig) -> Result<RunningPlane, StartError> {
        let artifacts = supplier(&config)?;
        Box::pin(Self::start_with(config, artifacts)).await
    }

    /// Starts a plane with another source of artifacts.
    ///
    /// # Errors
    /// When the configuration, the data directory or the address cannot be used.
    pub async fn start_with(
        config: PlaneConfig,
        artifacts: Arc<dyn ArtifactSource>,
    ) -> Result<RunningPlane, StartError> {
        if !config.listen.ip().is_loopback() && !config.allow_remote {
            return Err(StartError::Remote(config.listen));
        }
        let rego = match &config.rego {
            Some(directory) => Rego::load(directory).map_err(StartError::Rego)?,
            None => Rego::default(),
        };
        let openid = config.openid.as_deref().map(OpenId::load).transpose().map_err(StartError::OpenId)?;
        let credentials = credentials(&config).map_err(StartError::Credentials)?;
        let vault = webhook::Vault::load(config.secret_key.as_deref()).map_err(StartError::SecretKey)?;
        config.retention.check().map_err(StartError::Retention)?;
        let courier = webhook::client(&config.webhooks).map_err(StartError::Webhooks)?;
        let lock = lock(&config)?;
        let authorities = Authorities::open(config.authorities(), &SystemClock).map_err(StartError::Identity)?;
        let wakeups = Arc::new(Wakeups::default());
        let metrics = Arc::new(PlaneMetrics::default());
        let observer = Observer { wakeups: Arc::clone(&wakeups), metrics: Arc::clone(&metrics) };
        let opened = config.database.open(&config.data_directory, Arc::new(observer)).await;
        let store = opened.map_err(StartError::Database)?;
        let (listener, address) = bind(config.listen).await?;
        let (node_listener, node_address) = bind(config.node_listen).await?;
        let state = State::new(Inner {
            reads: Reads::of(Arc::clone(&store)),
            store,
            artifacts,
            clock: Arc::new(SystemClock),
            wakeups,
            definitions: Definitions::default(),
            nodes: Nodes::default(),
            authorities,
            task_key: TaskKey::default(),
            openid,
            credentials,
            vault,
            refusals: Refusals::default(),
            projects: Projects::default(),
            holdings: Holdings::default(),
            moves: Moves::default(),
            metrics,
            rego,
            rates: Rates::new(config.rate_limit),
            lockouts: Lockouts::new(config.lockout),
            token_uses: TokenUses::default(),
            shutdown: CancellationToken::new(),
            config,
        });
        spare_leases(&state).await.map_err(StartError::Store)?;
        webhook::seal_what_is_clear(&state).await.map_err(StartError::Store)?;
        let metrics = serve_metrics(&state).await.map_err(StartError::Metrics)?;
        let [leases, operations] = start_timers(&state);
        let couriers = tokio::spawn(webhook::deliver(state.clone(), courier));
        let shown = door::first(&state).map_err(StartError::Identity)?;
        let door = Door::open(node_listener, shown.subscribe(), state.clone());
        let tidy = tokio::spawn(upkeep::tidy(state.clone()));
        let timers = [leases, operations, couriers, tidy, tokio::spawn(door::keep(state.clone(), shown))];
        let servers = [tokio::spawn(serve(listener, state.clone())), tokio::spawn(serve_nodes(door, state.clone()))];
        Ok(RunningPlane { address, node_address, state, servers, timers, metrics, _lock: lock })
    }
}

impl RunningPlane {
    /// Where REST is served.
    #[must_use]
    pub const fn http_address(&self) -> SocketAddr {
        self.address
    }

    /// Where nodes connect.
    #[must_use]
    pub const fn node_address(&self) -> SocketAddr {
        self.node_address
    }

    /// Where metrics are served, when they are.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(Endpoint::address)
    }

    /// The listener of nodes without its socket and without TLS, to measure what these cost.
    #[cfg(feature = "simulation")]
    #[must_use]
    pub fn door(&self) -> crate::simulation::SimulatedDoor {
        crate::simulation::SimulatedDoor::of(&self.state)
    }

    /// Ends the streams, finishes the requests that are under way, and closes the store.
    pub async fn shutdown(mut self) {
        self.state.shutdown.cancel();
        let [people, nodes] = &mut self.servers;
        if tokio::time::timeout(GRACE, async { tokio::join!(people, nodes) }).await.is_err() {
            tracing::warn!("some connections were still open and were cut");
            self.servers.iter().for_each(JoinHandle::abort);
        }
        for timer in self.timers {
            if let Err(error) = timer.await {
                tracing::error!(%error, "a timer ended badly");
            }
        }
        self.state.store.close().await;
    }

    /// Waits until the server ends by itself, which it does only when something is badly wrong.
    ///
    /// # Errors
    /// What the system said.
    pub async fn failed(&mut self) -> std::io::Result<()> {
        let [people, nodes] = &mut self.servers;
        let ended = tokio::select! {
            ended = people => ended,
            ended = nodes => ended,
        };
        ended.map_err(std::io::Error::other)?
    }
}

/// Hosts could not extend their leases while this plane was away.
pub(crate) async fn spare_leases(state: &State) -> Result<(), StoreError> {
    let until = state.after(state.config.lease_duration);
    state.store.bound_leases(state.config.most_leases);
    state.store.spare_leases(until).await
}

/// Ends leases and operations that are due, until shutdown.
pub(crate) fn start_timers(state: &State) -> [JoinHandle<()>; 2] {
    [tokio::spawn(expiry::leases(state.clone())), tokio::spawn(expiry::operations(state.clone()))]
}

fn credentials(config: &PlaneConfig) -> Result<CredentialDesk, DeskError> {
    let Some(document) = &config.credentials else { return Ok(CredentialDesk::default()) };
    Desk::load(document, config.secret_key.as_deref()).map(CredentialDesk::of)
}

/// One plane per data directory: two would fight for what is in it.
fn lock(config: &PlaneConfig) -> Result<File, StartError> {
    let failed = |source| StartError::Directory { path: config.data_directory.clone(), source };
    make_directory(&config.data_directory).map_err(failed)?;
    let file = File::create(config.data_directory.join("plane.lock")).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(StartError::Locked(config.data_directory.clone())),
        Err(std::fs::TryLockError::Error(source)) => Err(failed(source)),
    }
}

fn supplier(config: &PlaneConfig) -> Result<Arc<dyn ArtifactSource>, StartError> {
    let Some(path) = &config.trust_policy else { return Ok(Arc::new(TrustsNobody)) };
    let files = TrustFiles::new(path.clone(), config.trusted_root.clone(), Some(config.data_directory.clone()));
    let trust = TrustSource::from(files);
    trust.current().map_err(StartError::Trust)?;
    make_directory(&config.data_directory)
        .map_err(|source| StartError::Directory { path: config.data_directory.clone(), source })?;
    let store = ContentStore::open(&config.data_directory.join("content"))
        .map_err(|error| StartError::Supply(Box::new(error)))?;
    let options = RegistryOptions {
        plain_http: config.plain_http_registries.clone(),
        layouts: config.oci_layouts.clone(),
        ..RegistryOptions::default()
    };
    let registry = RegistryClient::new(options).map_err(|error| StartError::Supply(Box::new(error)))?;
    Ok(Arc::new(Supplier::new(store, registry, trust)))
}

async fn serve_metrics(state: &State) -> Result<Option<Endpoint>, ListenError> {
    let Some(address) = state.config.metrics_listen else { return Ok(None) };
    let asked = state.clone();
    let refresh: Refresh = Arc::new(move || {
        let state = asked.clone();
        Box::pin(async move {
            match state.store.open_tasks().await {
                Ok(open) => {
                    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
                    state.metrics.tasks.with(["ready"]).set(number(open.ready));
                    state.metrics.tasks.with(["leased"]).set(number(open.leased));
                }
                Err(error) => tracing::warn!(%error, "tasks cannot be counted"),
            }
            match state.store.count_dead_letters().await {
                Ok(count) => drop(state.metrics.dead_letters.set(i64::try_from(count).unwrap_or(i64::MAX))),
                Err(error) => tracing::warn!(%error, "dead letters cannot be counted"),
            }
        })
    });
    let all = state.metrics.all.clone();
    listen::serve(address, state.config.metrics_allow_remote, all, refresh).await.map(Some)
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let failed = |source| StartError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let taken = listener.local_addr().map_err(failed)?;
    Ok((listener, taken))
}

async fn serve_nodes(door: Door, state: State) -> std::io::Result<()> {
    let shutdown = state.shutdown.clone();
    let nodes = node::router(state).into_make_service_with_connect_info::<Connection>();
    let stop: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move { shutdown.cancelled().await });
    axum::serve(door, nodes).with_graceful_shutdown(stop).await
}

async fn serve(listener: TcpListener, state: State) -> std::io::Result<()> {
    let shutdown = state.shutdown.clone();
    let listener = listener.tap_io(|stream| {
        // Small messages in both directions: waiting to fill a packet only adds delay.
        let _ = stream.set_nodelay(true);
    });
    let stop: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move { shutdown.cancelled().await });
    let router = api::router(state).into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, router).with_graceful_shutdown(stop).await
}
