//! PATCH /api/v1/tenants/{tenant}/webhooks/{webhook}

use axum::{
    Json,
    extract::{Path, State as Extracted},
};
use fettle_store::webhook::WebhookScope;

use crate::{
    api::{
        Problem,
        extract::Body,
        problem::ProblemDocument,
        v1::webhooks::{self, WebhookAmendment, WebhookView},
    },
    identity::InTenant,
    state::State,
};

/// Pauses a webhook of an organisation, or lets it go on where it stopped.
#[utoipa::path(patch, path = "/api/v1/tenants/{tenant}/webhooks/{webhook}", tag = "webhooks",
    params(
        ("tenant" = String, Path, description = "organisation"),
        ("webhook" = String, Path, description = "webhook"),
    ),
    request_body = WebhookAmendment,
    responses(
        (status = 200, description = "the webhook", body = WebhookView),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
        (status = 422, description = "everything that is wrong with the request", body = ProblemDocument),
    ))]
pub(crate) async fn amend(
    Extracted(state): Extracted<State>,
    InTenant { caller, tenant }: InTenant,
    Path((_owner, id)): Path<(String, String)>,
    Body(request): Body<WebhookAmendment>,
) -> Result<Json<WebhookView>, Problem> {
    let scope = WebhookScope::Tenant(tenant);
    Ok(Json(webhooks::amend(&state, &caller, scope, &id, &request).await?))
}
