//! GET /api/v1/tenants/{tenant}/webhooks/{webhook}

use axum::{
    Json,
    extract::{Path, State as Extracted},
};
use fettle_store::webhook::WebhookScope;

use crate::{
    api::{
        Problem,
        problem::ProblemDocument,
        v1::webhooks::{self, WebhookView},
    },
    identity::InTenant,
    state::State,
};

/// Shows a webhook of an organisation, and what came of the last attempt.
#[utoipa::path(get, path = "/api/v1/tenants/{tenant}/webhooks/{webhook}", tag = "webhooks",
    params(
        ("tenant" = String, Path, description = "organisation"),
        ("webhook" = String, Path, description = "webhook"),
    ),
    responses(
        (status = 200, description = "the webhook", body = WebhookView),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
    ))]
pub(crate) async fn show(
    Extracted(state): Extracted<State>,
    InTenant { tenant, .. }: InTenant,
    Path((_owner, id)): Path<(String, String)>,
) -> Result<Json<WebhookView>, Problem> {
    let scope = WebhookScope::Tenant(tenant);
    Ok(Json(webhooks::show(&state, &scope, &id).await?))
}
