//! What the parts of a running plane share.

use std::sync::Arc;

use fettle_store::{
    Store,
    context::{Actor, Context},
};
use fettle_telemetry::TraceParent;
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::{
    artifact::ArtifactSource,
    clock::{self, Clock, NoRandomness},
    config::PlaneConfig,
    deprecation::Moves,
    dispatch::{Holdings, Wakeups},
    identity::{Lockouts, Projects, Rates, TokenUses, authorities::Authorities, openid::OpenId, task_key::TaskKey},
    node::{CredentialDesk, Nodes, Refusals},
    observation::PlaneMetrics,
    policy::rego::Rego,
    reads::Reads,
    registration::Definitions,
    webhook::Vault,
};

/// Heartbeats that may be missing before a node counts as offline.
const MISSING: u32 = 3;

/// Shared by all endpoints; cheap to clone.
#[derive(Clone)]
pub(crate) struct State(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) config: PlaneConfig,
    pub(crate) store: Arc<dyn Store>,
    /// What each request reads of it.
    pub(crate) reads: Reads,
    pub(crate) artifacts: Arc<dyn ArtifactSource>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) wakeups: Arc<Wakeups>,
    pub(crate) definitions: Definitions,
    pub(crate) nodes: Nodes,
    /// What signs the certificates of nodes.
    pub(crate) authorities: Authorities,
    /// What signs tasks.
    pub(crate) task_key: TaskKey,
    /// Whose word about people counts, when anybody's does.
    pub(crate) openid: Option<OpenId>,
    /// What gives credentials to the steps of tasks.
    pub(crate) credentials: CredentialDesk,
    /// What seals the secrets of webhooks.
    pub(crate) vault: Vault,
    /// What nodes were refused lately.
    pub(crate) refusals: Refusals,
    pub(crate) projects: Projects,
    pub(crate) holdings: Holdings,
    /// When versions were deprecated or retired.
    pub(crate) moves: Moves,
    pub(crate) metrics: Arc<PlaneMetrics>,
    /// An organisation's own rules.
    pub(crate) rego: Rego,
    /// When the last use of each token was written down.
    pub(crate) token_uses: TokenUses,
    /// How often each token may ask.
    pub(crate) rates: Rates,
    pub(crate) lockouts: Lockouts,
    /// Ends streams and timers.
    pub(crate) shutdown: CancellationToken,
}

impl State {
    pub(crate) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    /// A new identifier.
    pub(crate) fn ulid(&self) -> Result<ulid::Ulid, NoRandomness> {
        clock::ulid(&*self.clock)
    }

    /// A place in a trace for a request that came without one while nobody records any.
    pub(crate) fn unrecorded_trace(&self) -> Result<TraceParent, NoRandomness> {
        let span = self.ulid()?.to_bytes();
        // The second half, which is random; the first half begins with the time.
        let span = std::array::from_fn(|index| span[span.len() / 2 + index]);
        Ok(TraceParent::unrecorded(self.ulid()?.to_bytes(), span))
    }

    /// Somebody does something now.
    pub(crate) fn context(&self, actor: Actor, correlation_id: impl Into<String>) -> Context {
        Context { actor, correlation_id: correlation_id.into(), at: self.clock.now() }
    }

    /// A node of which nothing was heard since then counts as offline.
    pub(crate) fn heard_since(&self) -> Timestamp {
        let silence = self.config.heartbeat_interval.saturating_mul(MISSING);
        let silence = SignedDuration::try_from(silence).unwrap_or(SignedDuration::MAX);
        self.clock.now().saturating_sub(silence).unwrap_or(Timestamp::MIN)
    }

    /// That long from now.
    pub(crate) fn after(&self, duration: std::time::Duration) -> Timestamp {
        let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
        self.clock.now().saturating_add(duration).unwrap_or(Timestamp::MAX)
    }
}

impl std::ops::Deref for State {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}
