//! POST /api/v1/tenants/{tenant}/webhooks

use axum::{Json, extract::State as Extracted, http::StatusCode};
use fettle_store::webhook::WebhookScope;

use crate::{
    api::{
        Problem,
        extract::Body,
        problem::ProblemDocument,
        v1::webhooks::{self, WebhookRequest, WebhookWithSecret},
    },
    identity::InTenant,
    state::State,
};

/// Makes a webhook: events of an organisation are sent to an address. The answer shows its secret, this once.
#[utoipa::path(post, path = "/api/v1/tenants/{tenant}/webhooks", tag = "webhooks",
    params(
        ("tenant" = String, Path, description = "organisation"),
    ),
    request_body = WebhookRequest,
    responses(
        (status = 201, description = "the webhook, with its secret", body = WebhookWithSecret),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
        (status = 409, description = "there are as many as there may be", body = ProblemDocument),
        (status = 422, description = "everything that is wrong with the request", body = ProblemDocument),
    ))]
pub(crate) async fn create(
    Extracted(state): Extracted<State>,
    InTenant { caller, tenant }: InTenant,
    Body(request): Body<WebhookRequest>,
) -> Result<(StatusCode, Json<WebhookWithSecret>), Problem> {
    let scope = WebhookScope::Tenant(tenant);
    Ok((StatusCode::CREATED, Json(webhooks::create(&state, &caller, scope, request).await?)))
}
