//! POST /api/v1/projects/{project}/operations/{operation_id}/retry

use axum::{Json, extract::State as Extracted};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{find, request::timeout, view::OperationView, whole};
use crate::{
    api::{
        Problem,
        extract::{OptionalBody, Path},
        problem::ProblemDocument,
    },
    identity::InProject,
    retry::{self, Retry},
    state::State,
};

/// What of an operation is run again.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RetryRequest {
    /// Names or ids of nodes; absent for all on which it did not succeed.
    nodes: Option<Vec<String>>,
    /// Whether steps run again of which nobody knows whether they happened.
    accept_unknown: bool,
    /// The longest that the new run may take.
    timeout_seconds: Option<u32>,
}

/// Runs an operation again that failed or was canceled: on the nodes where it did not succeed, from the first step that
/// did not. Steps that succeeded are kept unless the definition says that they are not reusable.
#[utoipa::path(post, path = "/api/v1/projects/{project}/operations/{operation_id}/retry", tag = "operations",
    params(
        ("project" = String, Path, description = "project"),
        ("operation_id" = String, Path, description = "operation"),
    ),
    request_body = Option<RetryRequest>,
    responses(
        (status = 200, description = "queued again, with a new run", body = OperationView),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
        (status = 409, description = "it is not over, has succeeded, or a step's outcome is unknown", body = ProblemDocument),
        (status = 422, description = "what is wrong with the request", body = ProblemDocument),
    ))]
pub(crate) async fn retry(
    Extracted(state): Extracted<State>,
    InProject { caller, project }: InProject,
    Path((_owner, id)): Path<(String, String)>,
    OptionalBody(body): OptionalBody<RetryRequest>,
) -> Result<Json<OperationView>, Problem> {
    let operation = find(&state, &project, &id).await?;
    let RetryRequest { nodes, accept_unknown, timeout_seconds } = body;
    if let Some(violation) = timeout(timeout_seconds) {
        return Err(Problem::invalid(vec![violation]));
    }
    let wanted = Retry { nodes, accept_unknown, timeout_seconds };
    let again = retry::retry(&state, &project, operation, wanted, caller.context()).await?;
    Ok(Json(whole(&state, again).await?))
}
