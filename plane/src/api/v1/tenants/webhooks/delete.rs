//! DELETE /api/v1/tenants/{tenant}/webhooks/{webhook}

use axum::{
    extract::{Path, State as Extracted},
    http::StatusCode,
};
use fettle_store::webhook::WebhookScope;

use crate::{
    api::{Problem, problem::ProblemDocument, v1::webhooks},
    identity::InTenant,
    state::State,
};

/// Removes a webhook of an organisation, with what it could not be told.
#[utoipa::path(delete, path = "/api/v1/tenants/{tenant}/webhooks/{webhook}", tag = "webhooks",
    params(
        ("tenant" = String, Path, description = "organisation"),
        ("webhook" = String, Path, description = "webhook"),
    ),
    responses(
        (status = 204, description = "it is gone"),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
    ))]
pub(crate) async fn delete(
    Extracted(state): Extracted<State>,
    InTenant { caller, tenant }: InTenant,
    Path((_owner, id)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let scope = WebhookScope::Tenant(tenant);
    webhooks::delete(&state, &caller, scope, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
