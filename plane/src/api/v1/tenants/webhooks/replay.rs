//! POST /api/v1/tenants/{tenant}/webhooks/{webhook}/dead-letters/replay

use axum::{
    Json,
    extract::{Path, State as Extracted},
};
use fettle_store::webhook::WebhookScope;

use crate::{
    api::{
        Problem,
        extract::OptionalBody,
        problem::ProblemDocument,
        v1::webhooks::{self, ReplayRequest, Replayed},
    },
    identity::InTenant,
    state::State,
};

/// Has dead letters of a webhook of an organisation told again.
#[utoipa::path(post, path = "/api/v1/tenants/{tenant}/webhooks/{webhook}/dead-letters/replay", tag = "webhooks",
    params(
        ("tenant" = String, Path, description = "organisation"),
        ("webhook" = String, Path, description = "webhook"),
    ),
    request_body = Option<ReplayRequest>,
    responses(
        (status = 200, description = "how many", body = Replayed),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
        (status = 422, description = "everything that is wrong with the request", body = ProblemDocument),
    ))]
pub(crate) async fn replay(
    Extracted(state): Extracted<State>,
    InTenant { caller, tenant }: InTenant,
    Path((_owner, id)): Path<(String, String)>,
    OptionalBody(request): OptionalBody<ReplayRequest>,
) -> Result<Json<Replayed>, Problem> {
    let scope = WebhookScope::Tenant(tenant);
    Ok(Json(webhooks::replay(&state, &caller, scope, &id, &request).await?))
}
