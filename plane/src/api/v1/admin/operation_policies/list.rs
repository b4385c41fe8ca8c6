//! GET /api/v1/admin/operation-policies

use axum::{Json, extract::State as Extracted};
use fettle_store::policy::PolicyScope;

use crate::{
    api::{
        Problem,
        extract::Query,
        problem::ProblemDocument,
        v1::policies::{self, Filter, Policies},
    },
    state::State,
};

/// Lists the overlays of the platform.
#[utoipa::path(get, path = "/api/v1/admin/operation-policies", tag = "operation policies",
    params(Filter),
    responses(
        (status = 200, description = "a page", body = Policies),
        (status = 403, description = "not a platform administrator", body = ProblemDocument),
    ))]
pub(crate) async fn list(
    Extracted(state): Extracted<State>,
    Query(filter): Query<Filter>,
) -> Result<Json<Policies>, Problem> {
    policies::list(&state, &PolicyScope::Global, filter).await
}
