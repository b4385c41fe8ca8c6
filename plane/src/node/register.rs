//! Register: a known node says what it has and can. In clear a node becomes known here too.

use fettle_store::{
    StoreError,
    context::Actor,
    id::NodeId,
    node::{NewNode, NodeFacts},
};
use fettle_wire::node::{RegisterRequest, RegisterResponse};
use tonic::{Request, Status};

use super::{
    authentication::{authenticate, correlation_id, join_token},
    facts::facts,
    status,
};
use crate::{
    identity::secret::{Purpose, Secret},
    state::State,
};

pub(super) async fn register(state: &State, request: Request<RegisterRequest>) -> Result<RegisterResponse, Status> {
    let correlation_id = correlation_id(state, request.metadata());
    let message = request.get_ref();
    let facts = facts(message)?;
    let (node_id, secret) = if message.node_id.is_empty() {
        let (id, secret) = join(state, facts, join_token(&request)?, correlation_id).await?;
        (id, secret.reveal().to_owned())
    } else {
        let caller = authenticate(state, &request).await?;
        caller.check(state, &message.node_id)?;
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
