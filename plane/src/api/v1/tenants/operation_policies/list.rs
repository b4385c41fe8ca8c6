//! GET /api/v1/tenants/{tenant}/operation-policies

use axum::{Json, extract::State as Extracted};
use fettle_store::policy::PolicyScope;

use crate::{
    api::{
        Problem,
        extract::Query,
        problem::ProblemDocument,
        v1::policies::{self, Filter, Policies},
    },
    identity::InTenant,
    state::State,
};

/// Lists the overlays of a tenant.
#[utoipa::path(get, path = "/api/v1/tenants/{tenant}/operation-policies", tag = "operation policies",
    params(("tenant" = String, Path, description = "organisation"), Filter),
    responses(
        (status = 200, description = "a page", body = Policies),
        (status = 404, description = "no such tenant, or not for the caller", body = ProblemDocument),
    ))]
pub(crate) async fn list(
    Extracted(state): Extracted<State>,
    InTenant { tenant, .. }: InTenant,
    Query(filter): Query<Filter>,
) -> Result<Json<Policies>, Problem> {
    policies::list(&state, &PolicyScope::Tenant(tenant), filter).await
}
