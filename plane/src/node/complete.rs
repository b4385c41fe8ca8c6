//! Complete: a task succeeded, or was canceled.

use fettle_model::task::TaskOutcome;
use fettle_wire::node::{CompleteRequest, CompleteResponse};
use tonic::{Request, Status};

use super::{
    authentication::{authenticate, correlation_id},
    status,
};
use crate::state::State;

pub(super) async fn complete(state: &State, request: Request<CompleteRequest>) -> Result<CompleteResponse, Status> {
    let caller = authenticate(state, &request).await?;
    let context = caller.context(state, correlation_id(state, request.metadata()));
    let message = request.get_ref();
    let lease = caller.lease(state, &message.node_id, &message.task_id, message.epoch)?;
    let outcome = if message.canceled { TaskOutcome::Canceled } else { TaskOutcome::Succeeded };
    let verdict = state.store.finish_task(lease, outcome, context).await.map_err(status::store)?;
    Ok(CompleteResponse { verdict: status::told(state, "complete", verdict) })
}
