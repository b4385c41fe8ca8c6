//! GET /api/v1/admin/operation-policies/{operation_type}

use axum::{extract::State as Extracted, response::Response};
use fettle_store::policy::PolicyScope;

use crate::{
    api::{
        Problem,
        extract::Path,
        problem::ProblemDocument,
        v1::policies::{self, PolicyView},
    },
    state::State,
};

/// Shows what the platform says of an operation type.
#[utoipa::path(get, path = "/api/v1/admin/operation-policies/{operation_type}", tag = "operation policies",
    params(
        ("operation_type" = String, Path, description = "operation type, without version"),
    ),
    responses(
        (status = 200, description = "the overlay; its ETag is that of a change", body = PolicyView,
            headers(("ETag" = String, description = "pass it as `If-Match`"))),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
    ))]
pub(crate) async fn show(Extracted(state): Extracted<State>, Path(name): Path<String>) -> Result<Response, Problem> {
    policies::show(&state, &PolicyScope::Global, &name).await
}
