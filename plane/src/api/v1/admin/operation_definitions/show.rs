//! GET /api/v1/admin/operation-definitions/{id}

use axum::{
    Json,
    extract::State as Extracted,
    response::{IntoResponse as _, Response},
};

use super::{find::find_visible, view::DefinitionView};
use crate::{
    api::{Problem, extract::Path, problem::ProblemDocument},
    deprecation::Deprecation,
    identity::Caller,
    state::State,
};

/// Shows one version with its document. Drafts are shown to platform administrators only.
#[utoipa::path(get, path = "/api/v1/admin/operation-definitions/{id}", tag = "operation definitions",
    params(("id" = String, Path, description = "id, or `operation_type@version`")),
    responses(
        (status = 200, description = "the version", body = DefinitionView, headers(
            ("Deprecation" = Option<String>, description = "since when it is deprecated (RFC 9745); absent of others"),
            ("Sunset" = Option<String>, description = "since when it is retired (RFC 8594); absent of others"),
            ("Link" = Option<String>, description = "of a deprecated or retired one: the newest published version"),
        )),
        (status = 404, description = "there is none, or not for the caller", body = ProblemDocument),
    ))]
pub(crate) async fn show(
    Extracted(state): Extracted<State>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let version = find_visible(&state, &caller, &name).await?;
    let deprecation = Deprecation::of(&state, &version).await?;
    let headers = deprecation.map(|deprecation| deprecation.headers()).unwrap_or_default();
    Ok((headers, Json(DefinitionView::whole(&version))).into_response())
}
