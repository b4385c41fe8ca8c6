//! What gives credentials on this plane, and how often a node may ask.

use std::num::NonZeroU32;

use fettle_credentials::{Desk, Minted, ProviderError, Wanted};
use fettle_store::id::NodeId;
use governor::{DefaultKeyedRateLimiter, Quota};

use super::NodeProblem;

/// Credentials that a node may ask for in a minute, in the long run: its tasks have 64 each at most.
const ASKED: NonZeroU32 = NonZeroU32::new(240).unwrap();

/// Nodes that are told apart before those that were quiet are forgotten.
const NODES: usize = 20_000;

/// Gives credentials.
pub(crate) struct CredentialDesk {
    desk: Desk,
    rates: DefaultKeyedRateLimiter<NodeId>,
}

impl CredentialDesk {
    /// Gives what these providers give.
    pub(crate) fn of(desk: Desk) -> Self {
        Self { desk, rates: DefaultKeyedRateLimiter::keyed(Quota::per_minute(ASKED)) }
    }

    /// Lets a node ask.
    pub(super) fn admit(&self, node_id: NodeId) -> Result<(), NodeProblem> {
        if self.rates.len() > NODES {
            self.rates.retain_recent();
        }
        self.rates.check_key(&node_id).map_err(|_| NodeProblem::too_many(ASKED.get()))
    }

    pub(super) async fn mint(&self, wanted: &Wanted<'_>) -> Result<Minted, ProviderError> {
        self.desk.mint(wanted).await
    }
}

impl Default for CredentialDesk {
    fn default() -> Self {
        Self::of(Desk::default())
    }
}
