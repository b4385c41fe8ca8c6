//! GET /api/v1/tenants/{tenant}/webhooks

use axum::{Json, extract::State as Extracted};
use fettle_store::webhook::WebhookScope;

use crate::{
    api::{
        Problem,
        problem::ProblemDocument,
        v1::webhooks::{self, Webhooks},
    },
    identity::InTenant,
    state::State,
};

/// Lists the webhooks of an organisation.
#[utoipa::path(get, path = "/api/v1/tenants/{tenant}/webhooks", tag = "webhooks",
    params(
        ("tenant" = String, Path, description = "organisation"),
    ),
    responses(
        (status = 200, description = "the webhooks", body = Webhooks),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
    ))]
pub(crate) async fn list(
    Extracted(state): Extracted<State>,
    InTenant { tenant, .. }: InTenant,
) -> Result<Json<Webhooks>, Problem> {
    let scope = WebhookScope::Tenant(tenant);
    Ok(Json(webhooks::list(&state, &scope).await?))
}
