//! POST /api/v1/projects/{project}/operations/plan

use axum::{Json, extract::State as Extracted, http::HeaderMap};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::request::NewOperationRequest;
use crate::{
    api::{Problem, extract::Body, problem::ProblemDocument},
    deprecation::{Deprecation, Warning},
    explanation,
    identity::InProject,
    state::State,
    submission,
};

/// What an operation would be.
#[derive(Serialize, ToSchema)]
pub(crate) struct PlanView {
    /// The node it would be for; absent where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<String>,
    /// The nodes it would be for.
    nodes: Vec<PlannedNode>,
    /// Digest of the plan.
    plan_digest: String,
    /// The plan: the graph with every component pinned.
    plan: Value,
    /// What each step asks for, is granted and is allowed, whose word each is, and for what is denied the
    /// line that would allow it.
    #[serde(skip_serializing_if = "Option::is_none")]
    access: Option<Value>,
    /// Why that is not known now.
    #[serde(skip_serializing_if = "Option::is_none")]
    access_problem: Option<String>,
    /// What whoever would submit it should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Warning>,
}

/// A node that an operation would be for.
#[derive(Serialize, ToSchema)]
pub(crate) struct PlannedNode {
    /// Its id.
    node_id: String,
    /// Its name.
    name: String,
}

/// Computes the plan of an operation, and stores nothing.
#[utoipa::path(post, path = "/api/v1/projects/{project}/operations/plan", tag = "operations",
    params(("project" = String, Path, description = "project")),
    request_body = NewOperationRequest,
    responses(
        (status = 200, description = "the plan", body = PlanView),
        (status = 404, description = "no such project, or not for the caller", body = ProblemDocument),
        (status = 422, description = "everything that is wrong with the request", body = ProblemDocument),
    ))]
pub(crate) async fn plan(
    Extracted(state): Extracted<State>,
    InProject { project, .. }: InProject,
    headers: HeaderMap,
    Body(body): Body<NewOperationRequest>,
) -> Result<Json<PlanView>, Problem> {
    let (submission, _) = body.read(&headers)?;
    let planned = submission::plan(&state, &project, &submission).await?;
    let (access, access_problem) = match explanation::explain(&*state.artifacts, &planned.plan).await {
        Ok(explained) => (serde_json::to_value(explained).ok(), None),
        Err(problem) => (None, Some(problem)),
    };
    let graph = &planned.plan.graph;
    let deprecation = Deprecation::named(&state, &graph.operation_type, &graph.version).await?;
    Ok(Json(PlanView {
        warnings: deprecation.as_ref().map(Deprecation::warning).into_iter().collect(),
        access,
        access_problem,
        node_id: if let [node] = planned.nodes.as_slice() { Some(node.id.to_string()) } else { None },
        nodes: planned
            .nodes
            .iter()
            .map(|node| PlannedNode { node_id: node.id.to_string(), name: node.facts.name.clone() })
            .collect(),
        plan_digest: planned.digest.to_string(),
        plan: serde_json::to_value(&*planned.plan).unwrap_or_default(),
    }))
}
