//! POST /api/v1/projects/{project}/operations/{operation_id}/cancel

use axum::{Json, extract::State as Extracted};

use super::{find, view::OperationView, whole};
use crate::{
    api::{Problem, extract::Path, problem::ProblemDocument},
    identity::InProject,
    state::State,
};

/// Cancels an operation: at once when no node has taken it, else its node is asked to stop.
#[utoipa::path(post, path = "/api/v1/projects/{project}/operations/{operation_id}/cancel", tag = "operations",
    params(
        ("project" = String, Path, description = "project"),
        ("operation_id" = String, Path, description = "operation"),
    ),
    responses(
        (status = 200, description = "canceled, or asked to stop", body = OperationView),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
        (status = 409, description = "it has ended already", body = ProblemDocument),
    ))]
pub(crate) async fn cancel(
    Extracted(state): Extracted<State>,
    InProject { caller, project }: InProject,
    Path((_owner, id)): Path<(String, String)>,
) -> Result<Json<OperationView>, Problem> {
    let operation = find(&state, &project, &id).await?;
    let canceled = state.store.cancel_operation(&project.project_id, operation.id, caller.context()).await?;
    Ok(Json(whole(&state, canceled).await?))
}
