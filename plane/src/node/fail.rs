//! Fail: a task failed for good.

use fettle_model::{name::StepId, task::TaskOutcome};
use fettle_wire::{
    convert,
    node::{FailRequest, FailResponse},
};
use tonic::{Request, Status};

use super::{
    authentication::{authenticate, correlation_id},
    status,
};
use crate::state::State;

pub(super) async fn fail(state: &State, request: Request<FailRequest>) -> Result<FailResponse, Status> {
    let caller = authenticate(state, &request).await?;
    let context = caller.context(state, correlation_id(state, request.metadata()));
    let message = request.get_ref();
    let lease = caller.lease(state, &message.node_id, &message.task_id, message.epoch)?;
    let failure = convert::failure(&message.failure)?;
    let step_id = (!message.step_id.is_empty()).then(|| message.step_id.parse::<StepId>()).transpose();
    let step_id = step_id.map_err(|error| Status::invalid_argument(error.to_string()))?;
    let outcome = TaskOutcome::Failed { failure, step_id };
    let verdict = state.store.finish_task(lease, outcome, context).await.map_err(status::store)?;
    Ok(FailResponse { verdict: status::told(state, "fail", verdict) })
}
