//! POST /api/v1/admin/operation-definitions/{id}/deprecate

use axum::{Json, extract::State as Extracted};
use fettle_store::definition::DefinitionChange;

use super::{find::find, view::DefinitionView};
use crate::{
    api::{Problem, extract::Path, problem::ProblemDocument},
    identity::Caller,
    registration,
    state::State,
};

/// Tells people to move on: the version can still be used. Doing it again changes nothing.
#[utoipa::path(post, path = "/api/v1/admin/operation-definitions/{id}/deprecate", tag = "operation definitions",
    params(("id" = String, Path, description = "id, or `operation_type@version`")),
    responses(
        (status = 200, description = "the version as it is now", body = DefinitionView),
        (status = 403, description = "not a platform administrator", body = ProblemDocument),
        (status = 404, description = "there is none", body = ProblemDocument),
        (status = 409, description = "it is a draft, or retired", body = ProblemDocument),
    ))]
pub(crate) async fn deprecate(
    Extracted(state): Extracted<State>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<DefinitionView>, Problem> {
    let version = find(&state, &name).await?;
    let changed = registration::change(&state, &version, DefinitionChange::Deprecate, caller.context()).await?;
    Ok(Json(DefinitionView::whole(&changed)))
}
