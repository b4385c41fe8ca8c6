//! PUT /api/v1/tenants/{tenant}/operation-policies/{operation_type}

use axum::{extract::State as Extracted, http::HeaderMap, response::Response};
use fettle_model::overlay::Overlay;
use fettle_store::policy::PolicyScope;

use crate::{
    api::{
        Problem,
        extract::{Body, Path},
        problem::ProblemDocument,
        v1::policies::{self, OverlayDocument, PolicyView},
    },
    identity::InTenant,
    state::State,
};

/// Writes what a tenant says of an operation type. It replaces what was said before.
#[utoipa::path(put, path = "/api/v1/tenants/{tenant}/operation-policies/{operation_type}", tag = "operation policies",
    params(
        ("tenant" = String, Path, description = "organisation"),
        ("operation_type" = String, Path, description = "operation type, without version"),
        ("If-Match" = Option<String>, Header, description = "the ETag that was read, or `*`"),
        ("If-None-Match" = Option<String>, Header, description = "`*` makes a new one only"),
    ),
    request_body = OverlayDocument,
    responses(
        (status = 200, description = "changed", body = PolicyView),
        (status = 201, description = "new", body = PolicyView),
        (status = 404, description = "no such tenant, or not for the caller", body = ProblemDocument),
        (status = 412, description = "it is not what the request expects", body = ProblemDocument),
        (status = 428, description = "the request does not say what it expects", body = ProblemDocument),
        (status = 422, description = "everything that is wrong with the overlay", body = ProblemDocument),
    ))]
pub(crate) async fn put(
    Extracted(state): Extracted<State>,
    InTenant { caller, tenant }: InTenant,
    Path((_owner, name)): Path<(String, String)>,
    headers: HeaderMap,
    Body(overlay): Body<Overlay>,
) -> Result<Response, Problem> {
    policies::put(&state, &caller, PolicyScope::Tenant(tenant), &name, &headers, overlay).await
}
