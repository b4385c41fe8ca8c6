//! Heartbeat: the node is alive.

use fettle_wire::node::{HeartbeatRequest, HeartbeatResponse};
use tonic::{Request, Status};

use super::{authentication::authenticate, status};
use crate::state::State;

/// Milliseconds by which clocks may differ before it is worth a line in the log. Certificates stand an hour.
const TOO_MUCH: u64 = 60_000;

pub(super) async fn heartbeat(state: &State, request: Request<HeartbeatRequest>) -> Result<HeartbeatResponse, Status> {
    let caller = authenticate(state, &request).await?;
    let HeartbeatRequest { node_id, clock_milliseconds } = request.into_inner();
    caller.check(state, &node_id)?;
    let context = caller.context(state, String::new());
    let now = context.at.as_millisecond();
    state.store.record_heartbeat(caller.id, context).await.map_err(status::store)?;
    if clock_milliseconds != 0 && now.abs_diff(clock_milliseconds) > TOO_MUCH {
        let ahead_seconds = (clock_milliseconds - now) / 1000;
        tracing::warn!(node_id, ahead_seconds, "the clocks of a node and of this plane differ; check both");
    }
    let mark = state.authorities.current().mark.clone();
    Ok(HeartbeatResponse { mark, clock_milliseconds: now })
}
