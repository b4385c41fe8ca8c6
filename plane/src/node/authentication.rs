//! Which node calls.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use fettle_model::task::Epoch;
use fettle_store::{
    context::{Actor, Context},
    id::NodeId,
    secret::SecretHash,
    task::LeaseKey,
};
use jiff::{SignedDuration, Timestamp};
use tonic::{Status, metadata::MetadataMap};

use super::status;
use crate::{identity::secret, state::State, submission::is_key};

/// A node that authenticated with its own secret.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub(super) id: NodeId,
}

/// How long a secret counts after it was looked up: a busy node makes some thousand calls in that time, and one whose
/// secret was replaced makes the last of them with it.
const LOOKED_UP: SignedDuration = SignedDuration::from_secs(1);

/// Secrets remembered at most; then all are forgotten.
const REMEMBERED: usize = 20_000;

/// Nodes by the secrets that were looked up a moment ago.
#[derive(Default)]
pub(crate) struct Nodes(Mutex<HashMap<SecretHash, (NodeId, Timestamp)>>);

impl Nodes {
    fn find(&self, secret: &SecretHash, now: Timestamp) -> Option<NodeId> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = |at: Timestamp| (SignedDuration::ZERO..LOOKED_UP).contains(&now.duration_since(at));
        known.get(secret).filter(|(_, at)| fresh(*at)).map(|(id, _)| *id)
    }

    fn remember(&self, secret: SecretHash, id: NodeId, now: Timestamp) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(secret, (id, now));
    }
}

/// The secret that came with a call.
pub(super) fn bearer(metadata: &MetadataMap) -> Result<SecretHash, Status> {
    let header = metadata.get("authorization").and_then(|value| value.to_str().ok());
    header.and_then(secret::bearer).map(SecretHash::of).ok_or_else(|| {
        Status::unauthenticated("this call needs a secret; send metadata `authorization: Bearer <secret>`")
    })
}

/// The node with the secret that came with a call.
pub(super) async fn authenticate(state: &State, metadata: &MetadataMap) -> Result<Caller, Status> {
    let secret = bearer(metadata)?;
    if let Some(id) = state.nodes.find(&secret, state.clock.now()) {
        return Ok(Caller { id });
    }
    let found = state.store.node_by_secret(secret).await.map_err(status::store)?;
    if let Some(id) = found {
        state.nodes.remember(secret, id, state.clock.now());
    }
    let id = found.ok_or_else(|| {
        Status::unauthenticated("no node has this secret; register this host again with a new join token")
    })?;
    Ok(Caller { id })
}

/// The correlation id that came with a call, or a new one.
pub(super) fn correlation_id(state: &State, metadata: &MetadataMap) -> String {
    let sent = metadata.get("x-correlation-id").and_then(|value| value.to_str().ok()).filter(|text| is_key(text));
    sent.map_or_else(|| state.ulid().map(|id| id.to_string()).unwrap_or_default(), str::to_owned)
}

impl Caller {
    /// Refuses a message that speaks for another node.
    pub(super) fn check(self, node_id: &str) -> Result<(), Status> {
        if node_id == self.id.to_string() {
            return Ok(());
        }
        Err(Status::permission_denied(format!(
            "the message speaks for node `{node_id}`, and its secret belongs to node `{}`",
            self.id
        )))
    }

    /// The lease that a message speaks of.
    pub(super) fn lease(self, node_id: &str, task_id: &str, epoch: u64) -> Result<LeaseKey, Status> {
        self.check(node_id)?;
        let task_id = task_id
            .parse()
            .map_err(|error: fettle_store::id::ParseIdError| Status::invalid_argument(error.to_string()))?;
        Ok(LeaseKey { node_id: self.id, task_id, epoch: Epoch(epoch) })
    }

    /// What accompanies a write of the node.
    pub(super) fn context(self, state: &State, correlation_id: String) -> Context {
        state.context(Actor::Node(self.id), correlation_id)
    }
}
