//! A plane for simulations: all of it but the socket, on a store, a clock and randomness that it is given.

use std::sync::Arc;

use axum::{
    Extension, Router,
    extract::{ConnectInfo, Request},
    response::Response,
};
use fettle_identity::{Certificate, Refusal};
use fettle_store::{Store, StoreError, change::Listener};
use jiff::Timestamp;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::{
    api,
    artifact::ArtifactSource,
    clock::{Clock, NoRandomness},
    config::PlaneConfig,
    deprecation::Moves,
    dispatch::{Holdings, Wakeups},
    identity::{
        Lockouts, Projects, Rates, TokenUses,
        authorities::{Authorities, IdentityError},
        task_key::TaskKey,
    },
    node::{self, Connection, CredentialDesk, Nodes, Refusals},
    observation::{Observer, PlaneMetrics},
    plane::{spare_leases, start_timers},
    policy::rego::Rego,
    reads::Reads,
    registration::Definitions,
    state::{Inner, State},
    webhook::Vault,
};

/// Time and chance of a simulated machine.
pub trait World: Send + Sync {
    /// What the clock of the machine shows.
    fn now(&self) -> Timestamp;

    /// Fills `bytes` with what follows from the seed.
    fn random(&self, bytes: &mut [u8]);
}

/// Why a simulated plane did not start.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The authority's files cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

struct WorldClock(Arc<dyn World>);

impl Clock for WorldClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn random(&self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        self.0.random(bytes);
        Ok(())
    }
}

/// A plane that answers whoever calls its router.
pub struct SimulatedPlane {
    state: State,
    timers: [JoinHandle<()>; 2],
}

impl SimulatedPlane {
    /// Starts a plane as `Plane::start_with` does. `open` opens its store, which must tell the listener.
    ///
    /// # Errors
    /// When the store does not answer, or the authority's files cannot be used.
    pub async fn start(
        config: PlaneConfig,
        open: impl FnOnce(Arc<dyn Listener>) -> Arc<dyn Store>,
        artifacts: Arc<dyn ArtifactSource>,
        world: Arc<dyn World>,
    ) -> Result<Self, SimulationError> {
        let wakeups = Arc::new(Wakeups::default());
        let metrics = Arc::new(PlaneMetrics::default());
        let observer = Observer { wakeups: Arc::clone(&wakeups), metrics: Arc::clone(&metrics) };
        let clock: Arc<dyn Clock> = Arc::new(WorldClock(world));
        let authorities = Authorities::open(config.authorities(), &*clock)?;
        let store = open(Arc::new(observer));
        let state = State::new(Inner {
            reads: Reads::of(Arc::clone(&store)),
            store,
            artifacts,
            clock,
            wakeups,
            definitions: Definitions::default(),
            nodes: Nodes::default(),
            authorities,
            task_key: TaskKey::default(),
            openid: None,
            credentials: CredentialDesk::default(),
            vault: Vault::default(),
            // How many there are in a minute is a matter of how fast the simulation goes.
            refusals: Refusals::all(),
            projects: Projects::default(),
            holdings: Holdings::default(),
            moves: Moves::default(),
            metrics,
            rego: Rego::default(),
            rates: Rates::new(config.rate_limit),
            lockouts: Lockouts::new(config.lockout),
            token_uses: TokenUses::default(),
            shutdown: CancellationToken::new(),
            config,
        });
        spare_leases(&state).await?;
        let timers = start_timers(&state);
        Ok(Self { state, timers })
    }

    /// What is served to people and programs.
    pub fn router(&self) -> Router {
        api::router(self.state.clone())
    }

    /// Where nodes come.
    pub fn door(&self) -> SimulatedDoor {
        SimulatedDoor::of(&self.state)
    }
}

/// The listener of nodes, without its socket and without TLS.
#[derive(Clone)]
pub struct SimulatedDoor {
    state: State,
    nodes: Router,
}

impl SimulatedDoor {
    pub(crate) fn of(state: &State) -> Self {
        Self { state: state.clone(), nodes: node::router(state.clone()) }
    }

    /// All that is served to whoever shows this certificate, by one connection.
    ///
    /// # Errors
    /// When the certificate does not count.
    pub fn connection(&self, certificate: &Certificate) -> Result<Router, Refusal> {
        self.check(certificate)?;
        let connection = Connection::without_network(Some(certificate));
        Ok(self.nodes.clone().layer(Extension(ConnectInfo(connection))))
    }

    fn check(&self, certificate: &Certificate) -> Result<(), Refusal> {
        let current = self.state.authorities.current();
        current.check(certificate, self.state.clock.now()).map(drop).map_err(|error| Refusal::of(&error))
    }

    /// Answers one request of whoever shows this certificate, as if it came by a connection of its own. That the key
    /// belongs to the certificate is believed.
    ///
    /// # Errors
    /// When the certificate does not count.
    pub async fn answer(&self, certificate: Option<&Certificate>, mut request: Request) -> Result<Response, Refusal> {
        certificate.map_or(Ok(()), |certificate| self.check(certificate))?;
        request.extensions_mut().insert(ConnectInfo(Connection::without_network(certificate)));
        Ok(self.nodes.clone().oneshot(request).await.unwrap_or_else(|never| match never {}))
    }
}

impl Drop for SimulatedPlane {
    fn drop(&mut self) {
        self.state.shutdown.cancel();
        for timer in &self.timers {
            timer.abort();
        }
    }
}
