//! GET /api/v1/projects/{project}/operations/{operation_id}

use axum::{Json, extract::State as Extracted};

use super::{find, view::OperationView, whole_of};
use crate::{
    api::{Problem, extract::Path, problem::ProblemDocument},
    identity::InProject,
    policy::dispatch,
    state::State,
};

/// Shows one operation with its steps and what they were denied.
#[utoipa::path(get, path = "/api/v1/projects/{project}/operations/{operation_id}", tag = "operations",
    params(
        ("project" = String, Path, description = "project"),
        ("operation_id" = String, Path, description = "operation"),
    ),
    responses(
        (status = 200, description = "the operation", body = OperationView),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
    ))]
pub(crate) async fn show(
    Extracted(state): Extracted<State>,
    InProject { project, .. }: InProject,
    Path((_owner, id)): Path<(String, String)>,
) -> Result<Json<OperationView>, Problem> {
    let operation = find(&state, &project, &id).await?;
    let mut nodes = state.store.node_tasks(operation.id, state.heard_since()).await?;
    dispatch::explain(&state, &operation, &mut nodes).await;
    Ok(Json(whole_of(&state, operation, nodes).await?))
}
