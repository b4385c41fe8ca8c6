//! Register: a node becomes known, or known again.

use fettle_model::name::Label;
use fettle_store::{
    StoreError,
    context::Actor,
    id::NodeId,
    node::{NewNode, NodeFacts},
};
use fettle_wire::node::{RegisterRequest, RegisterResponse};
use tonic::{Request, Status};

use super::{
    authentication::{authenticate, bearer, correlation_id},
    status,
};
use crate::{
    identity::secret::{Purpose, Secret},
    state::State,
};

/// Most capability facts, and most labels, of one node, and the longest of them.
const CAPABILITIES: usize = 64;
const CAPABILITY_LENGTH: usize = 200;

/// Most tasks of one node at once.
const SLOTS: u32 = 1024;

pub(super) async fn register(state: &State, request: Request<RegisterRequest>) -> Result<RegisterResponse, Status> {
    let (metadata, _, message) = request.into_parts();
    let correlation_id = correlation_id(state, &metadata);
    let facts = facts(&message)?;
    let (node_id, secret) = if message.node_id.is_empty() {
        let (id, secret) = join(state, facts, bearer(&metadata)?, correlation_id).await?;
        (id, secret.reveal().to_owned())
    } else {
        let caller = authenticate(state, &metadata).await?;
        caller.check(&message.node_id)?;
        let context = caller.context(state, correlation_id);
        state.store.update_node(caller.id, facts, context).await.map_err(status::store)?;
        (caller.id, String::new())
    };
    let interval = state.config.heartbeat_interval.as_secs().max(1);
    Ok(RegisterResponse {
        node_id: node_id.to_string(),
        secret,
        heartbeat_interval_seconds: u32::try_from(interval).unwrap_or(u32::MAX),
    })
}

async fn join(
    state: &State,
    facts: NodeFacts,
    join_token: fettle_store::secret::SecretHash,
    correlation_id: String,
) -> Result<(NodeId, Secret), Status> {
    let random = |error: crate::clock::NoRandomness| Status::internal(error.to_string());
    let secret = Secret::generate(&*state.clock, Purpose::Node).map_err(random)?;
    let node = NewNode { id: NodeId::new(state.ulid().map_err(random)?), facts, hash: secret.hash() };
    let context = state.context(Actor::Joining, correlation_id);
    let joined = state.store.join_node(node, join_token, context).await.map_err(|error| {
        if matches!(error, StoreError::NotFound { .. }) {
            return Status::unauthenticated(
                "the join token is unknown, expired or used up; create one with `fettle-plane join-token create`",
            );
        }
        status::store(error)
    })?;
    Ok((joined.id, secret))
}

fn facts(message: &RegisterRequest) -> Result<NodeFacts, Status> {
    let invalid = |text: String| Err(Status::invalid_argument(text));
    if let Err(error) = message.name.parse::<Label>() {
        return invalid(format!("node name: {error}"));
    }
    if message.slots == 0 || message.slots > SLOTS {
        return invalid(format!("`slots` is {}; write 1 to {SLOTS}", message.slots));
    }
    let long = |text: &String| text.len() > CAPABILITY_LENGTH;
    for (what, facts) in [("capabilities", &message.capabilities), ("labels", &message.labels)] {
        if facts.len() > CAPABILITIES || facts.iter().any(|(key, value)| long(key) || long(value)) {
            return invalid(format!(
                "a node has at most {CAPABILITIES} {what}, each of at most {CAPABILITY_LENGTH} bytes"
            ));
        }
    }
    if long(&message.host_version) {
        return invalid(format!("`host_version` has at most {CAPABILITY_LENGTH} bytes"));
    }
    Ok(NodeFacts {
        name: message.name.clone(),
        host_version: message.host_version.clone(),
        capabilities: message.capabilities.clone().into_iter().collect(),
        labels: message.labels.clone().into_iter().collect(),
        slots: message.slots,
    })
}
