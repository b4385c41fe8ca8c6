//! Register: a known node says what it has and can.

use fettle_wire::node::{RegisterRequest, RegisterResponse};
use tonic::{Request, Status};

use super::{
    authentication::{authenticate, correlation_id},
    facts::facts,
    status,
};
use crate::state::State;

pub(super) async fn register(state: &State, request: Request<RegisterRequest>) -> Result<RegisterResponse, Status> {
    let correlation_id = correlation_id(state, request.metadata());
    let message = request.get_ref();
    let facts = facts(message)?;
    let caller = authenticate(state, &request).await?;
    caller.check(state, &message.node_id)?;
    state.store.update_node(caller.id, facts, caller.context(state, correlation_id)).await.map_err(status::store)?;
    let interval = state.config.heartbeat_interval.as_secs().max(1);
    Ok(RegisterResponse {
        node_id: caller.id.to_string(),
        heartbeat_interval_seconds: u32::try_from(interval).unwrap_or(u32::MAX),
    })
}
