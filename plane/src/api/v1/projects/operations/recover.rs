//! POST /api/v1/projects/{project}/operations/{operation_id}/recover

use axum::{
    Json,
    extract::{Path, State as Extracted},
};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{find, view::OperationView, whole};
use crate::{
    api::{Problem, extract::OptionalBody, problem::ProblemDocument},
    identity::InProject,
    recovery::{self, Verdict},
    state::State,
};

/// What a person says of a step of which nobody knows whether it happened.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecoverRequest {
    /// The step.
    step_id: String,
    /// The name or id of the node; needed where the step is in question on several.
    node: Option<String>,
    /// What is true.
    outcome: Outcome,
    /// What the step put out, where it is done; later steps are given it.
    output: Option<Value>,
    /// What follows.
    #[serde(default)]
    then: Then,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// It happened: the step has succeeded.
    Done,
    /// It did not happen: the step has failed, and may run again.
    NotDone,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Then {
    /// The operation goes on from the first step that did not succeed.
    #[default]
    Continue,
    /// It stays as it is.
    Stop,
}

/// Takes a person's word for a step of which nobody knows whether it happened, and goes on from there or not.
#[utoipa::path(post, path = "/api/v1/projects/{project}/operations/{operation_id}/recover", tag = "operations",
    params(
        ("project" = String, Path, description = "project"),
        ("operation_id" = String, Path, description = "operation"),
    ),
    request_body = RecoverRequest,
    responses(
        (status = 200, description = "decided", body = OperationView),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
        (status = 409, description = "it is not over, or the step is not in question", body = ProblemDocument),
        (status = 422, description = "what is wrong with the request", body = ProblemDocument),
    ))]
pub(crate) async fn recover(
    Extracted(state): Extracted<State>,
    InProject { caller, project }: InProject,
    Path((_owner, id)): Path<(String, String)>,
    OptionalBody(body): OptionalBody<Option<RecoverRequest>>,
) -> Result<Json<OperationView>, Problem> {
    let operation = find(&state, &project, &id).await?;
    // After the operation: whose it is comes before what is said of it.
    let body = body.ok_or_else(|| Problem::malformed("the body is empty; say `step_id` and `outcome`".to_owned()))?;
    let happened =
        (body.outcome == Outcome::Done).then(|| body.output.unwrap_or_else(|| Value::Object(Default::default())));
    let (step_id, node, continues) = (body.step_id, body.node, body.then == Then::Continue);
    let verdict = Verdict { step_id, node, happened, continues };
    let decided = recovery::recover(&state, &project, operation, verdict, caller.context()).await?;
    Ok(Json(whole(&state, decided).await?))
}
