//! Heartbeat: the node is alive.

use fettle_wire::node::{HeartbeatRequest, HeartbeatResponse};
use tonic::{Request, Status};

use super::{authentication::authenticate, status};
use crate::state::State;

pub(super) async fn heartbeat(state: &State, request: Request<HeartbeatRequest>) -> Result<HeartbeatResponse, Status> {
    let caller = authenticate(state, request.metadata()).await?;
    caller.check(&request.get_ref().node_id)?;
    let context = caller.context(state, String::new());
    state.store.record_heartbeat(caller.id, context).await.map_err(status::store)?;
    Ok(HeartbeatResponse {})
}
