//! POST /api/v1/projects/{project}/operations

use axum::{
    Json,
    extract::State as Extracted,
    http::{HeaderMap, StatusCode},
};
use fettle_store::operation::Created;

use super::{request::NewOperationRequest, view::OperationView};
use crate::{
    api::{Problem, extract::Body, problem::ProblemDocument},
    deprecation::Deprecation,
    identity::InProject,
    state::State,
    submission,
};

/// Submits an operation. Of a version that is deprecated the answer says so, in `warnings` and in its headers.
#[utoipa::path(post, path = "/api/v1/projects/{project}/operations", tag = "operations",
    params(
        ("project" = String, Path, description = "project"),
        ("Idempotency-Key" = Option<String>, Header, description = "the same request with the same key is one operation"),
    ),
    request_body = NewOperationRequest,
    responses(
        (status = 201, description = "accepted", body = OperationView, headers(
            ("Deprecation" = Option<String>, description = "since when the version is deprecated (RFC 9745)"),
            ("Link" = Option<String>, description = "of a deprecated version: the newest published one"),
        )),
        (status = 200, description = "accepted before with the same key", body = OperationView),
        (status = 404, description = "no such project, or not for the caller", body = ProblemDocument),
        (status = 409, description = "the key was used for another request, or the version was retired just now", body = ProblemDocument),
        (status = 422, description = "everything that is wrong with the request", body = ProblemDocument),
    ))]
pub(crate) async fn create(
    Extracted(state): Extracted<State>,
    InProject { caller, project }: InProject,
    headers: HeaderMap,
    Body(body): Body<NewOperationRequest>,
) -> Result<(StatusCode, HeaderMap, Json<OperationView>), Problem> {
    let (submission, correlation_id) = body.read(&headers)?;
    let mut context = caller.context();
    context.correlation_id = correlation_id.unwrap_or(context.correlation_id);
    let (status, operation) = match submission::submit(&state, project, submission, context).await? {
        Created::New(operation) => (StatusCode::CREATED, operation),
        Created::Repeated(operation) => (StatusCode::OK, operation),
    };
    let deprecation = Deprecation::named(&state, &operation.operation_type, &operation.version).await?;
    let headers = deprecation.as_ref().map(Deprecation::headers).unwrap_or_default();
    Ok((status, headers, Json(OperationView::brief(operation).warned(deprecation.as_ref()))))
}
