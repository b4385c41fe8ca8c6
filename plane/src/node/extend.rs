//! Extend: a lease should last longer.

use fettle_wire::node::{ExtendRequest, ExtendResponse};
use tonic::{Request, Status};

use super::{
    authentication::{authenticate, correlation_id},
    status,
};
use crate::state::State;

pub(super) async fn extend(state: &State, request: Request<ExtendRequest>) -> Result<ExtendResponse, Status> {
    let caller = authenticate(state, &request).await?;
    let context = caller.context(state, correlation_id(state, request.metadata()));
    let message = request.get_ref();
    let lease = caller.lease(state, &message.node_id, &message.task_id, message.epoch)?;
    let deadline = state.after(state.config.lease_duration);
    let extended = state.store.extend_lease(lease, deadline, context).await.map_err(status::store)?;
    Ok(ExtendResponse {
        verdict: status::told(state, "extend", extended.verdict),
        lease_seconds: status::seconds(state.config.lease_duration),
        canceled: extended.canceled,
    })
}
