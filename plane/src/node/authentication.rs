//! Which node calls: by the certificate of its connection.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
};

use axum::extract::ConnectInfo;
use fettle_identity::Role;
use fettle_model::task::Epoch;
use fettle_store::{
    context::{Actor, Context},
    id::NodeId,
    node::NodeKeys,
    secret::SecretHash,
    task::LeaseKey,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tonic::{Extensions, Request, Status, metadata::MetadataMap};

use super::{
    connection::{Connection, Shown},
    refusals, status,
};
use crate::{state::State, submission::is_key};

/// A node that showed a certificate which counts.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) id: NodeId,
    shown: Arc<Shown>,
    connection: Connection,
}

/// How long it counts that a node was looked up: a busy node makes some thousand calls in that time, and one that is
/// revoked makes the last of them. Its stream of leases ends at once.
const LOOKED_UP: SignedDuration = SignedDuration::from_secs(1);

/// A node speaks for another one.
const OTHER_NODE: &str = "node.other_node";

/// Nodes remembered at most; then all are forgotten.
const REMEMBERED: usize = 20_000;

/// Nodes that were looked up a moment ago and may call.
#[derive(Default)]
pub(crate) struct Nodes {
    good: Lately<NodeId, NodeKeys>,
    /// The newest key of each node, once it was shown: whoever shows it has heard the answer.
    shown: Mutex<HashMap<NodeId, SecretHash>>,
}

impl Nodes {
    /// Whether a node has shown its newest key, as far as this plane knows.
    fn has_shown(&self, id: NodeId, newest: SecretHash) -> bool {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).get(&id) == Some(&newest)
    }

    fn is_shown(&self, id: NodeId, newest: SecretHash) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.len() >= REMEMBERED {
            shown.clear();
        }
        shown.insert(id, newest);
    }
}

/// What was found out a moment ago.
struct Lately<K, V>(Mutex<HashMap<K, (V, Timestamp)>>);

impl<K, V> Default for Lately<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Copy> Lately<K, V> {
    fn find(&self, key: &K, now: Timestamp) -> Option<V> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = |at: Timestamp| (SignedDuration::ZERO..LOOKED_UP).contains(&now.duration_since(at));
        known.get(key).filter(|(_, at)| fresh(*at)).map(|(value, _)| *value)
    }

    fn remember(&self, key: K, value: V, now: Timestamp) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(key, (value, now));
    }
}

/// What is known of the connection that a call came by.
pub(super) fn connection(extensions: &Extensions) -> Result<&Connection, Status> {
    let found = extensions.get::<ConnectInfo<Connection>>().map(|ConnectInfo(connection)| connection);
    found.ok_or_else(|| Status::internal("the call came by no connection of nodes"))
}

/// The node that calls, as long as it may.
pub(super) async fn authenticate<T: Sync>(state: &State, request: &Request<T>) -> Result<Caller, Status> {
    by_certificate(state, connection(request.extensions())?).await
}

/// The node whose certificate the connection showed, as long as it counts.
pub(super) async fn by_certificate(state: &State, connection: &Connection) -> Result<Caller, Status> {
    let refuse = async |code, status: fn(String) -> Status, reason: String| {
        Err(refusals::call(state, connection, code, status, &reason).await)
    };
    let Some(shown) = &connection.peer else {
        let reason = "this call needs the certificate of a node; join first, with a join token";
        return refuse("node.certificate_missing", Status::unauthenticated, reason.to_owned()).await;
    };
    let id = match &shown.peer.role {
        Role::Node(id) => id.parse::<NodeId>().ok(),
        Role::Plane | Role::TaskSigner => None,
    };
    let Some(id) = id else {
        let reason = "this call needs the certificate of a node, and this is none";
        return refuse("node.certificate_wrong_purpose", Status::permission_denied, reason.to_owned()).await;
    };
    let caller = Caller { id, shown: Arc::clone(shown), connection: connection.clone() };
    if caller.is_expired(state) {
        let reason =
            format!("the certificate of node `{id}` has expired at {}; connect with a newer one", caller.expires_at());
        return refuse("node.certificate_expired", Status::unauthenticated, reason).await;
    }
    match caller.stands(state).await? {
        Standing::Good => Ok(caller),
        Standing::Outdated => {
            let reason = format!(
                "this certificate of node `{id}` counts no longer: its authority was replaced, or the node has newer keys; \
                 connect with the newest certificate"
            );
            refuse("node.certificate_outdated", Status::unauthenticated, reason).await
        }
        Standing::Unknown => {
            let reason = format!("there is no node `{id}`; let this host join again with a new join token");
            refuse("node.unknown", Status::unauthenticated, reason).await
        }
        Standing::Revoked => {
            let reason = format!("node `{id}` is revoked; if that was a mistake, let its host join under a new name");
            refuse("node.revoked", Status::permission_denied, reason).await
        }
    }
}

/// The correlation id that came with a call, or a new one.
pub(super) fn correlation_id(state: &State, metadata: &MetadataMap) -> String {
    let sent = metadata.get("x-correlation-id").and_then(|value| value.to_str().ok()).filter(|text| is_key(text));
    sent.map_or_else(|| state.ulid().map(|id| id.to_string()).unwrap_or_default(), str::to_owned)
}

/// What a node may do at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Good,
    /// The certificate is of an authority that counts no longer, or for a key that does not.
    Outdated,
    Revoked,
    Unknown,
}

impl Caller {
    /// When its certificate counts no longer.
    pub(super) fn expires_at(&self) -> Timestamp {
        self.shown.peer.validity.until
    }

    /// Whether its certificate counts no longer.
    pub(super) fn is_expired(&self, state: &State) -> bool {
        self.expires_at() < state.clock.now()
    }

    /// Whether it may still call.
    pub(super) async fn stands(&self, state: &State) -> Result<Standing, Status> {
        if !self.shown.counts(state) {
            return Ok(Standing::Outdated);
        }
        let now = state.clock.now();
        if state.nodes.good.find(&self.id, now).is_some_and(|keys| self.is_for(&keys)) {
            return Ok(Standing::Good);
        }
        self.looked_up(state).await
    }

    /// The same, as the database says it now.
    pub(super) async fn looked_up(&self, state: &State) -> Result<Standing, Status> {
        if !self.shown.counts(state) {
            return Ok(Standing::Outdated);
        }
        let found = state.store.node_standing(self.id).await.map_err(status::store)?;
        Ok(match found {
            None => Standing::Unknown,
            Some(standing) if standing.is_revoked => Standing::Revoked,
            Some(standing) if !self.is_for(&standing.keys) => Standing::Outdated,
            Some(standing) => {
                state.nodes.good.remember(self.id, standing.keys, state.clock.now());
                if standing.keys.key == self.shown.key {
                    state.nodes.is_shown(self.id, standing.keys.key);
                }
                Standing::Good
            }
        })
    }

    /// Refuses to renew with a key that has another one after it which the node has shown: the question is a late one, and
    /// its answer would take the place of what the node has.
    pub(super) async fn check_renewal(&self, state: &State) -> Result<(), Status> {
        let standing = state.store.node_standing(self.id).await.map_err(status::store)?;
        let newest = standing.map_or(self.shown.key, |standing| standing.keys.key);
        if newest == self.shown.key || !state.nodes.has_shown(self.id, newest) {
            return Ok(());
        }
        let reason = format!("node `{}` has a newer certificate than this, and has shown it; renew that one", self.id);
        Err(refusals::call(state, &self.connection, "node.certificate_outdated", Status::unauthenticated, &reason)
            .await)
    }

    /// Whether these are its keys.
    fn is_for(&self, keys: &NodeKeys) -> bool {
        keys.count(&self.shown.key)
    }

    /// What is kept of the key that it showed.
    pub(super) fn key(&self) -> SecretHash {
        self.shown.key
    }

    /// Refuses a message that speaks for another node.
    pub(super) fn check(&self, state: &State, node_id: &str) -> Result<(), Status> {
        if node_id == self.id.to_string() {
            return Ok(());
        }
        let reason =
            format!("the message speaks for node `{node_id}`, and its certificate belongs to node `{}`", self.id);
        let (state, connection) = (state.clone(), self.connection.clone());
        let told = reason.clone();
        tokio::spawn(
            async move { refusals::call(&state, &connection, OTHER_NODE, Status::permission_denied, &told).await },
        );
        Err(refusals::with_code(Status::permission_denied(reason), OTHER_NODE))
    }

    /// Writes down that the node was refused something.
    pub(super) async fn refused(
        &self,
        state: &State,
        (action, code): (&'static str, &'static str),
        resource_name: String,
        details: Value,
    ) {
        let address = self.connection.address;
        let context = self.context(state, state.ulid().map(|id| id.to_string()).unwrap_or_default());
        refusals::of_node(state, address, (action, code), (resource_name, details), context).await;
    }

    /// The lease that a message speaks of.
    pub(super) fn lease(&self, state: &State, node_id: &str, task_id: &str, epoch: u64) -> Result<LeaseKey, Status> {
        self.check(state, node_id)?;
        let task_id = task_id
            .parse()
            .map_err(|error: fettle_store::id::ParseIdError| Status::invalid_argument(error.to_string()))?;
        Ok(LeaseKey { node_id: self.id, task_id, epoch: Epoch(epoch) })
    }

    /// What accompanies a write of the node.
    pub(super) fn context(&self, state: &State, correlation_id: String) -> Context {
        state.context(Actor::Node(self.id), correlation_id)
    }
}
