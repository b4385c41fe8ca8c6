//! Ack: a lease arrived.

use fettle_store::task::Verdict;
use fettle_wire::node::{AckRequest, AckResponse};
use tonic::{Request, Status};

use super::{
    authentication::{authenticate, correlation_id},
    status,
};
use crate::state::State;

pub(super) async fn acknowledge(state: &State, request: Request<AckRequest>) -> Result<AckResponse, Status> {
    let caller = authenticate(state, &request).await?;
    let context = caller.context(state, correlation_id(state, request.metadata()));
    let message = request.get_ref();
    let lease = caller.lease(state, &message.node_id, &message.task_id, message.epoch)?;
    let deadline = state.after(state.config.lease_duration);
    let verdict = state.store.acknowledge_lease(lease, deadline, context).await.map_err(status::store)?;
    status::told(state, "ack", verdict);
    match verdict {
        Verdict::Accepted => Ok(AckResponse {}),
        Verdict::Stale | Verdict::Ended => Err(Status::failed_precondition(format!(
            "the lease of task {} under epoch {} is over; drop the task [lease.stale]",
            message.task_id, message.epoch
        ))),
    }
}
