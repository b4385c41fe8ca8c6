//! A plane for simulations: all of it but the socket, on a store, a clock and randomness that it is given.

use std::sync::Arc;

use axum::Router;
use fettle_store::{Store, StoreError, change::Listener};
use jiff::Timestamp;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    api,
    artifact::ArtifactSource,
    clock::{Clock, NoRandomness},
    config::PlaneConfig,
    deprecation::Moves,
    dispatch::{Holdings, Wakeups},
    identity::{
        Projects, Rates,
        authorities::{Authorities, IdentityError},
    },
    node::{Nodes, Refusals},
    observation::{Observer, PlaneMetrics},
    plane::{spare_leases, start_timers},
    policy::rego::Rego,
    registration::Definitions,
    state::{Inner, State},
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
        let state = State::new(Inner {
            store: open(Arc::new(observer)),
            artifacts,
            clock,
            wakeups,
            definitions: Definitions::default(),
            nodes: Nodes::default(),
            authorities,
            refusals: Refusals::default(),
            projects: Projects::default(),
            holdings: Holdings::default(),
            moves: Moves::default(),
            metrics,
            rego: Rego::default(),
            rates: Rates::new(config.rate_limit),
            shutdown: CancellationToken::new(),
            config,
        });
        spare_leases(&state).await?;
        let timers = start_timers(&state);
        Ok(Self { state, timers })
    }

    /// What is served at its address: REST and the node protocol, in clear.
    pub fn router(&self) -> Router {
        api::router(self.state.clone())
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
