//! POST /api/v1/projects/{project}/operations/{operation_id}/force-probe

use axum::{
    Json,
    extract::{Path, State as Extracted},
};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{find, view::OperationView, whole};
use crate::{
    api::{Problem, extract::OptionalBody, problem::ProblemDocument},
    identity::InProject,
    recovery,
    state::State,
};

/// Whose nodes are asked.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ForceProbeRequest {
    /// Names or ids of nodes; absent for all that have a step in question.
    nodes: Option<Vec<String>>,
}

/// Asks the nodes of an operation that is over whether steps have happened of which nobody knows it. Only probes run,
/// and nothing is changed on a node. A step that is proven done has succeeded from then on.
#[utoipa::path(post, path = "/api/v1/projects/{project}/operations/{operation_id}/force-probe", tag = "operations",
    params(
        ("project" = String, Path, description = "project"),
        ("operation_id" = String, Path, description = "operation"),
    ),
    request_body = Option<ForceProbeRequest>,
    responses(
        (status = 200, description = "asked, in a run of its own", body = OperationView),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
        (status = 409, description = "it is not over, or nothing of it is in question", body = ProblemDocument),
        (status = 422, description = "what is wrong with the request", body = ProblemDocument),
    ))]
pub(crate) async fn force_probe(
    Extracted(state): Extracted<State>,
    InProject { caller, project }: InProject,
    Path((_owner, id)): Path<(String, String)>,
    OptionalBody(body): OptionalBody<ForceProbeRequest>,
) -> Result<Json<OperationView>, Problem> {
    let operation = find(&state, &project, &id).await?;
    let asked = recovery::force_probe(&state, &project, operation, body.nodes, caller.context()).await?;
    Ok(Json(whole(&state, asked).await?))
}
